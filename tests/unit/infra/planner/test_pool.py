"""The virtual pool: time, offsets, coming and going, and what is paid."""

import math
from collections.abc import Sequence

import pytest

from gpu_consumer.scheduling.scheduler import Scheduler
from infra.planner.cells import free_config
from infra.planner.device import Priced
from infra.planner.house import House
from infra.planner.pool import Pool
from infra.planner.replay import Outcome, replay
from infra.planner.request import Request
from infra.planner.scalers import Fixed, Keda, Rules, Utilisation, gpu_seconds, lag
from infra.planner.shape import Kind, flat, week
from infra.scaling.hpa import Behaviour
from schemas.pools import Pool as Declared

CONFIG = free_config("a", "m", 10.0)
OTHER = free_config("b", "n", 10.0)


class InTurns:
    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def partition(self, request: Request) -> int:
        return request.number % self._partitions

    def tick(self, now: float) -> None: ...


class Sizes:
    """So many from each moment on; `seen` at each look."""

    def __init__(self, *sizes: tuple[float, int]) -> None:
        self._sizes = dict(sizes)
        self.seen: list[tuple[float, int, int]] = []

    def look(self, now: float, pool: Pool) -> float:
        self.seen.append((now, pool.size, sum(pool.lags.values())))
        pool.scale(self._sizes[now], now)
        return next((at for at in self._sizes if at > now), math.inf)


def run(
    requests: Sequence[Request],
    scaler: Sizes,
    until: float,
    *,
    load: float = 0.0,
    rebalance: float = 0.0,
    parts: int = 4,
) -> tuple[Pool, Outcome]:
    outcome = Outcome()
    pool = Pool(
        Priced(5.0), House(parts, load, rebalance_seconds=rebalance), InTurns(parts),
        lambda: Scheduler(0.25, affinity_wait_seconds=5.0), outcome,
    )  # fmt: skip
    pool.run(requests, until, scaler)
    return pool, outcome


def at(*moments: float, deadline: float = math.inf) -> list[Request]:
    return [Request(n, moment, CONFIG, deadline=moment + deadline) for n, moment in enumerate(moments)]


def test_a_replica_is_paid_from_its_start_and_works_once_it_has_loaded_and_has_partitions() -> None:
    pool, outcome = run(at(1.0), Sizes((0.0, 1)), 100.0, load=30.0, rebalance=3.0)
    assert outcome.waits == [pytest.approx(37.0)]
    assert (pool.paid_seconds, pool.busy_seconds) == (100.0, 15.0), "a swap and the run"


def test_the_group_commits_up_to_the_first_that_is_not_done() -> None:
    """The second of one partition is done before the first, and the lag stays 2."""
    slow, quick = free_config("slow", "m", 100.0), free_config("quick", "m", 1.0)
    requests = [Request(0, 1.0, slow), Request(1, 1.0, quick)]
    sizes = Sizes((0.0, 1), (50.0, 1), (106.0, 1), (108.0, 1))
    run(requests, sizes, 200.0, parts=1)
    assert [lagging for _, _, lagging in sizes.seen] == [0, 2, 1, 0]


def test_those_that_load_go_first_then_those_with_the_least_to_finish_and_these_finish_it() -> None:
    """Case KEDA-11."""
    sizes = Sizes((0.0, 2), (20.0, 3), (22.0, 2), (23.0, 1))
    requests = [Request(0, 16.0, free_config("a", "m", 30.0)), Request(1, 16.0, free_config("x", "n", 20.0))]
    pool, outcome = run(requests, sizes, 300.0, load=15.0, parts=2)
    assert outcome.in_time == 2
    assert len(pool.consumers) == 1
    assert pool.paid_seconds == pytest.approx(300.0 + 2.0 + 41.0), "one never loaded; one left after its run"


def test_nothing_is_lost_while_replicas_come_and_go() -> None:
    kinds = [Kind(CONFIG, 1.0), Kind(OTHER, 1.0, "bulk")]
    requests = list(flat(2000.0).arrivals(kinds, 3.0, 1))
    sizes = Sizes((0.0, 2), (100.0, 6), (400.0, 0), (500.0, 1), (900.0, 8), (1200.0, 3))
    pool, outcome = run(requests, sizes, 20_000.0, load=20.0, rebalance=3.0, parts=16)
    assert outcome.in_time == outcome.asked == len(requests)
    assert not pool.waiting
    assert set(pool.lags.values()) == {0}


def test_what_is_over_expires_and_what_runs_late_leaves() -> None:
    pool, outcome = run(at(1.0, 1.0, 1.0, deadline=18.0), Sizes((0.0, 1)), 100.0, parts=1)
    assert (outcome.in_time, outcome.expired) == (1, 2)
    assert pool.busy_seconds == pytest.approx(18.0), "the second ran until its deadline"


RULES = Rules(Behaviour(), 0, 8)
DECLARED = Declared(
    gpu_product="H200", vram_bytes=1, price_usd_per_hour=4, replicas_max=8, partitions=16, load_seconds=30
)


def test_a_bill_is_closed_when_all_is_done_and_knows_what_was_missed_and_when() -> None:
    """What a pool holds for nobody afterwards is no part of what a trace costs."""
    asked = at(0.0, 0.0, 0.0, deadline=70.0)
    open_, closed = (replay(asked, House(2, 30.0), Fixed(1), 7230.0, closes=closes) for closes in (False, True))
    assert (open_.paid_seconds, closed.paid_seconds) == (7230.0, 120.0), "at the first look at which all is done"
    assert (closed.in_time, closed.expired, closed.missed_at) == (1, 2, [70.0, 70.0])
    assert closed.replicas_most == 1
    assert closed.samples[-1].at == 120.0
    never = replay(asked, House(2, 30.0), Fixed(0), 30.0, closes=True)
    assert (never.missed, never.missed_at) == (3, [70.0] * 3), "nobody was there to tell that it was over"


@pytest.mark.parametrize(
    "scaler", [Keda(RULES, lag(2), 2, 0), Keda(RULES, gpu_seconds(30.0, DECLARED), 30.0, 0)], ids=["lag", "gpu_seconds"]
)
def test_keda_wakes_a_pool_and_lays_it_to_sleep(scaler: Keda) -> None:
    outcome = replay(at(*[100.0] * 16, deadline=600.0), House(16, 30.0), scaler, 2000.0)
    assert outcome.in_time == 16
    sizes = [sample.size for sample in outcome.samples]
    assert (sizes[0], max(sizes) > 3, sizes[-1]) == (0, True, 0)
    assert 16 * 10 / 3600 < outcome.gpu_hours < 8 * 1000 / 3600


def test_the_hpa_on_utilisation_follows_how_busy_cards_are() -> None:
    requests = list(flat(4000.0).arrivals([Kind(CONFIG, 1.0)], 4.0, 1))
    outcome = replay(requests, House(16, 30.0), Utilisation(RULES, 0.7), 4000.0)
    settled = [sample.size for sample in outcome.samples if sample.at > 1500.0]
    assert 4 <= min(settled) <= max(settled) <= 8
    assert replay(requests, House(16, 30.0), Fixed(8), 4000.0).gpu_hours > outcome.gpu_hours


def test_a_week_has_its_days_nights_and_mean() -> None:
    shape = week(1, 8.0)
    assert sum(shape.rates) / len(shape.rates) == pytest.approx(1.0)
    night, evening = (shape.rates[(24 + hour) * 60 : (25 + hour) * 60] for hour in (4, 20))
    assert sum(evening) > 3 * sum(night)
    assert max(shape.rates) > 2 * max(sorted(shape.rates)[: len(shape.rates) * 9 // 10])
    requests = list(flat(10_000.0).arrivals([Kind(CONFIG, 1.0), Kind(OTHER, 1.0, together=50)], 2.0, 3))
    assert sum(request.seconds for request in requests) / 10_000 == pytest.approx(2.0, rel=0.2)
