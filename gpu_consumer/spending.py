"""What this consumer costs, for whom, and who waited: its pool's price, over the seconds that it was there."""

from collections.abc import Iterable, Mapping

from gpu_consumer.clock import Clock
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.uptime import Meter
from schemas.cost import Price
from schemas.pools import Pool
from schemas.tenants import OTHER, Quota, Tenants
from schemas.uptime import State, Uptime

_HOUR_SECONDS = 3600
_CONFIGS_MAX = 200  # that a process names; those that come later are `other`, too, or versions would add up for ever


class Spending:
    """For one loop. `tenants`: those of the file; None: nobody is declared there. Who is not named there nor by control
    is `other`.

    Metrics are of this process and in full precision. A bill is made of results, which are rounded, and of `uptime`.
    """

    def __init__(
        self, metrics: GpuMetrics, clock: Clock, name: str, pool: Pool, tenants: Tenants | None = None
    ) -> None:
        self.price = Price(name, pool.price_usd_per_hour)
        self._metrics = metrics
        self._clock = clock
        self._declared = tenants if tenants is not None else Tenants()
        self._tenants = Tenants()
        self._configs: set[str] = set()
        self._meter = Meter(clock.steady())
        metrics.set("price_usd_per_hour", pool.price_usd_per_hour)
        if pool.budget_usd_per_month is not None:
            metrics.set("budget_usd_per_month", pool.budget_usd_per_month)
        self.hear({})

    def hear(self, quotas: Mapping[str, Quota]) -> None:
        """What control says now of tenants; it stands in for what the file does."""
        before, declared = self._tenants.tenants, {**self._declared.tenants, **quotas}
        self._tenants = self._declared.model_copy(update={"tenants": declared})
        for tenant in before.keys() | declared.keys():
            budget = declared[tenant].budget_usd_per_month if tenant in declared else None
            self._metrics.tell("tenant_budget_usd_per_month", budget, tenant=tenant)

    def book(self, tenant: str, config: str, gpu_seconds: float) -> None:
        """A picture took so long, whether there is one or not. `config`: its label."""
        usd = gpu_seconds * self.price.usd_per_hour / _HOUR_SECONDS
        label = self._tenants.label_of(tenant)
        if config not in self._configs:
            config = OTHER if len(self._configs) >= _CONFIGS_MAX else config
            self._configs.add(config)
        self._metrics.count("gpu_seconds_total", gpu_seconds, tenant=label)
        self._metrics.count("cost_usd_total", usd, tenant=label)
        self._metrics.count("config_gpu_seconds_total", gpu_seconds, config=config)
        self._metrics.count("config_cost_usd_total", usd, config=config)

    def began(self, tenant: str, wait_seconds: float) -> None:
        """A job of the tenant waited so long for its first slot: whose turn came late is seen by that."""
        label = self._tenants.label_of(tenant)
        self._metrics.count("tenant_wait_seconds_total", wait_seconds, tenant=label)
        self._metrics.count("tenant_begun_total", tenant=label)

    def engine(self, state: State) -> None:
        """What the engine does from now on."""
        self._count(self._meter.enter(state, self._clock.steady(), self._clock.wall_ms()))

    def news(self, consumer: str) -> list[Uptime]:
        """What there is to tell of the hours up to now."""
        self._count(self._meter.advance(self._clock.steady(), self._clock.wall_ms()))
        return self._meter.news(self.price, consumer)

    def untold(self, records: Iterable[Uptime]) -> None:
        self._meter.untold(records)

    def _count(self, by_state: Mapping[State, float]) -> None:
        for state, seconds in by_state.items():
            self._metrics.count("state_seconds_total", seconds, state=state)
            usd = seconds * self.price.usd_per_hour / _HOUR_SECONDS
            self._metrics.count("state_cost_usd_total", usd, state=state)
