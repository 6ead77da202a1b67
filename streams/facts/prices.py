"""What pictures cost as GPU consumers measure it: seconds of the observations topic, by pool and configuration."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from admission.world import World
from schemas.demand import DEMAND_PREFIX
from schemas.errors import Undecodable
from schemas.observation import decode_observation
from schemas.pools import Pool
from schemas.topics import Catalogue
from streams.kafka.followed import Followed
from streams.kafka.log import Record
from streams.kafka.settings import KafkaSettings
from streams.kafka.view import CompactedView

_LOG = logging.getLogger(__name__)
_KEPT = 4096  # measures; a configuration has a few, one a device and bucket
_RECENT = timedelta(days=1)  # before the newest of a price: an older one is of another release, or another bucket


@dataclass(frozen=True, slots=True)
class _Measure:
    pool: str
    device: str
    config_hash: str
    gpu_seconds: float
    count: int
    at: datetime


class PricesFact(Followed):
    """Nothing waits for it: what was not measured costs the preset of its config."""

    name = "prices"

    def __init__(
        self, kafka: KafkaSettings, catalogue: Catalogue, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._pools = catalogue.pools
        self._now = now
        self._measures: OrderedDict[bytes, _Measure] = OrderedDict()
        self._by_config: dict[str, set[bytes]] = {}
        self._prices: dict[tuple[str, str], float] = {}
        super().__init__(CompactedView(kafka, catalogue.observations, self.fold))

    @property
    def problem(self) -> str | None:
        return None

    @property
    def ready(self) -> bool:
        """Whether all that was measured has been read once."""
        return self._view.ready

    @property
    def prices(self) -> Mapping[tuple[str, str], float]:
        """GPU-seconds of a picture by pool and config hash, as measured up to now."""
        return self._prices

    def into(self, world: World) -> World:
        return replace(world, prices=self._prices)

    def fold(self, record: Record) -> None:
        """Other observations stand in the same topic, and what we do not understand changes nothing."""
        key = record.key or b""
        if key.startswith(DEMAND_PREFIX):
            return
        before = self._measures.pop(key, None)
        if before is not None:
            self._forget(key, before)
        measure = _measured(record, self._now())
        if measure is not None:
            self._measures[key] = measure
            self._by_config.setdefault(measure.config_hash, set()).add(key)
            self._price(measure.config_hash)
        while len(self._measures) > _KEPT:
            self._forget(*self._measures.popitem(last=False))

    def _forget(self, key: bytes, measure: _Measure) -> None:
        keys = self._by_config[measure.config_hash]
        keys.discard(key)
        if not keys:
            del self._by_config[measure.config_hash]
        self._price(measure.config_hash)

    def _price(self, config_hash: str) -> None:
        known = [self._measures[key] for key in self._by_config.get(config_hash, ())]
        for name, pool in self._pools.items():
            seconds = _seconds(each for each in known if _runs_in(each, name, pool))
            if seconds is None:
                self._prices.pop((name, config_hash), None)
            else:
                self._prices[name, config_hash] = seconds


def _measured(record: Record, now: datetime) -> _Measure | None:
    """None: nothing that could be a price. One of a clock that runs ahead is of now, or it would outlast all others."""
    if record.value is None:
        return None
    try:
        said = decode_observation(record.value)
    except Undecodable as error:
        _LOG.info("an observation at offset %d is passed over: %s", record.offset, error)
        return None
    if said.gpu_seconds == 0:  # a clock that does not run
        return None
    return _Measure(said.pool, said.device, said.config_hash, said.gpu_seconds, said.count, min(said.at, now))


def _runs_in(measure: _Measure, name: str, pool: Pool) -> bool:
    return measure.pool == name or pool.is_product(measure.device)


def _seconds(measures: Iterable[_Measure]) -> float | None:
    """Of one picture: each consumer's and bucket's P95, weighted by how many batches it is of."""
    known = list(measures)
    if not known:
        return None
    newest = max(each.at for each in known)
    recent = [each for each in known if newest - each.at <= _RECENT]
    return sum(each.gpu_seconds * each.count for each in recent) / sum(each.count for each in recent)
