"""What a virtual consumer runs together: slots joined at a step, batches that run whole, and what both cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from gpu_consumer.engine.virtual.device import VirtualDevice
from gpu_consumer.engine.virtual.loop import Turn, VirtualLoop
from gpu_consumer.scheduling.scheduler import Scheduler
from infra.planner.device import Priced
from infra.planner.house import House
from infra.planner.pool import Pool
from infra.planner.request import Request
from infra.planner.scalers import Fixed
from schemas.config import GenerationConfig
from schemas.request import Lane
from tests.benchmarks.batching import ours
from tests.benchmarks.batching.workload import MEAN_STEPS, poisson

SWAP = 5.0


def config(
    name: str = "a", *, steps: int = 10, seconds: float = 1.0, bucket: int = 4, **more: object
) -> GenerationConfig:
    """By default a step of its bucket takes 0.4 s, and a picture 4."""
    fields = {
        "name": name, "version": 1, "family": "sd15", "model": {"name": "m", "digest": f"sha256:{0:064}"},
        "steps": steps, "guidance_scale": 5.0, "width": 512, "height": 512, "bucket": bucket,
        "price": {"gpu_seconds": seconds, "vram_bytes": 1},
    }  # fmt: skip
    return GenerationConfig.model_validate(fields | more)


@dataclass(slots=True)
class Seen:
    """When each request began and ended, and which of them were made."""

    began_at: dict[int, float] = field(default_factory=dict)
    ended_at: dict[int, float] = field(default_factory=dict)
    made: set[int] = field(default_factory=set)
    swaps: int = 0

    def arrived(self, request: Request, owner: str | None) -> None: ...

    def began(self, now: float, batch: Sequence[Request], swap: float) -> None:
        self.swaps += swap > 0
        for request in batch:
            self.began_at[request.number] = now

    def ended(self, now: float, request: Request, *, made: bool) -> None:
        assert request.number not in self.ended_at, "once"
        self.ended_at[request.number] = now
        if made:
            self.made.add(request.number)


class Served(Scheduler):
    """GPU-seconds that tenants are booked with beyond what was expected of them."""

    booked = 0.0

    def served(self, tenant: str, lane: Lane, gpu_seconds: float) -> None:
        super().served(tenant, lane, gpu_seconds)
        self.booked += gpu_seconds


class OnePartition:
    def partition(self, request: Request) -> int:
        del request
        return 0

    def tick(self, now: float) -> None: ...


class InTurns:
    def partition(self, request: Request) -> int:
        return request.number % 2

    def tick(self, now: float) -> None: ...


HOUSE = House(1, rebalance_seconds=0.0)


def run(requests: Sequence[Request], *, until: float = 1000.0, house: House = HOUSE) -> tuple[Pool, Seen]:
    seen = Seen()
    pool = Pool(Priced(SWAP), house, OnePartition(), lambda: Scheduler(0.25, affinity_wait_seconds=5.0), seen)
    pool.run(requests, until, Fixed(1))
    return pool, seen


def asked(*each: tuple[float, GenerationConfig], images: int = 1, deadline: float = math.inf) -> list[Request]:
    return [Request(n, at, what, deadline=at + deadline, images=images) for n, (at, what) in enumerate(each)]


def test_a_picture_alone_in_its_bucket_takes_as_long_as_a_full_one() -> None:
    pool, seen = run(asked((1.0, config())))
    assert seen.ended_at == {0: pytest.approx(1.0 + SWAP + 4.0)}
    assert pool.busy_seconds == pytest.approx(SWAP + 4.0), "GPU-hours follow from it"
    together, seen = run(asked(*[(1.0, config())] * 4))
    assert list(seen.ended_at.values()) == pytest.approx([1.0 + SWAP + 4.0] * 4)
    assert together.busy_seconds == pytest.approx(SWAP + 4.0)


def test_what_comes_later_joins_at_the_next_step_and_ends_when_its_own_steps_are_done() -> None:
    pool, seen = run(asked((1.0, config()), (7.1, config()), (7.6, config("b", steps=5, seconds=0.5))))
    assert seen.began_at == {0: pytest.approx(6.0), 1: pytest.approx(7.2), 2: pytest.approx(7.6)}
    assert seen.ended_at == {0: pytest.approx(10.0), 1: pytest.approx(11.2), 2: pytest.approx(9.6)}
    assert pool.busy_seconds == pytest.approx(11.2 - 1.0)


def test_nobody_joins_a_full_bucket_and_a_free_slot_is_taken_at_once() -> None:
    short = config("b", steps=5, seconds=0.5)
    _, seen = run(asked((1.0, config()), (1.0, short), (1.0, config()), (1.0, config()), (1.0, config())))
    first, freed = 1.0 + SWAP, 1.0 + SWAP + 2.0
    assert sorted(seen.began_at.values()) == pytest.approx([first] * 4 + [freed])
    assert max(seen.ended_at.values()) == pytest.approx(freed + 4.0)


def test_another_kind_waits_until_what_runs_has_drained() -> None:
    other = config("b", width=256)
    _, seen = run(asked((1.0, config()), (1.0, config()), (2.0, other), (6.5, config())))
    assert seen.began_at[3] == pytest.approx(6.8), "it passes the one whose turn it is, for so long as affinity waits"
    assert seen.began_at[2] == seen.ended_at[3] == pytest.approx(10.8)
    assert seen.swaps == 1, "it is the same model"


def test_another_kind_is_chosen_ahead_where_little_runs_and_then_nobody_passes_it() -> None:
    other = config("b", width=256)
    _, seen = run(asked((1.0, config()), (2.0, other), (6.5, config())))
    assert [seen.began_at[n] for n in range(3)] == pytest.approx([6.0, 10.0, 14.0])


def test_a_slot_that_is_free_between_the_steps_of_others_is_taken_then() -> None:
    """As where texts and decodes make steps of few seem longer."""
    long, short = config(bucket=2, seconds=2.0), config("b", steps=5, bucket=2, seconds=1.25)
    _, seen = run(asked((1.0, long), (1.0, short), (1.0, long)))
    assert seen.began_at[2] == seen.ended_at[1] == pytest.approx(8.5)


def test_the_pictures_of_a_request_share_a_bucket_and_it_ends_with_its_last() -> None:
    pool, seen = run(asked((1.0, config()), images=4))
    assert seen.ended_at == {0: pytest.approx(1.0 + SWAP + 4.0)}
    pool, seen = run(asked((1.0, config()), images=6))
    assert seen.ended_at == {0: pytest.approx(1.0 + SWAP + 8.0)}
    assert pool.busy_seconds == pytest.approx(SWAP + 8.0)
    assert Request(0, 0.0, config(), images=6).run_seconds == pytest.approx(8.0)


def test_what_runs_whole_starts_and_ends_together_and_nobody_joins_it() -> None:
    whole = config(batching="whole")
    pool, seen = run(asked((1.0, whole), (1.1, whole), (6.5, whole)))
    begins = 1.25 + SWAP
    assert seen.ended_at == {
        0: pytest.approx(begins + 4.0), 1: pytest.approx(begins + 4.0), 2: pytest.approx(begins + 8.0)
    }  # fmt: skip
    assert pool.busy_seconds == pytest.approx(SWAP + 8.0)
    _, seen = run(asked(*[(1.0, whole)] * 4))
    assert list(seen.ended_at.values()) == pytest.approx([1.0 + SWAP + 4.0] * 4), "a full one waits for nobody"


def test_a_whole_batch_that_was_chosen_ahead_waits_for_the_one_that_runs() -> None:
    quick = config(batching="whole", seconds=0.001)
    _, seen = run(asked((1.0, quick), *[(3.0, quick)] * 4))
    assert [seen.began_at[n] for n in range(5)] == pytest.approx([6.25] + [6.254] * 4)


def test_who_is_late_before_it_has_a_slot_expires_then() -> None:
    _, seen = run([*asked(*[(1.0, config())] * 4), Request(4, 1.0, config(), deadline=8.0)])
    assert (seen.made, seen.ended_at[4]) == ({0, 1, 2, 3}, 8.0)


def test_who_is_late_leaves_with_all_its_pictures_and_its_slots_are_free() -> None:
    late, after = Request(0, 1.0, config(), deadline=8.0, images=4), Request(1, 1.0, config())
    pool, seen = run([late, after])
    assert (seen.made, seen.ended_at[0]) == ({1}, 8.0)
    assert seen.ended_at[1] == pytest.approx(12.0)
    assert (pool.waiting, set(pool.lags.values())) == ({}, {0})
    _, seen = run(asked((1.0, config()), images=9, deadline=9.0))
    assert (seen.made, seen.ended_at) == (set(), {0: 10.0}), "four had no slot, one was only queued"


def test_who_shares_a_step_shares_what_it_costs_and_the_scheduler_hears_of_it() -> None:
    queue, seen = Served(0.25), Seen()
    pool = Pool(Priced(SWAP), HOUSE, OnePartition(), lambda: queue, seen)
    pool.run(asked((1.0, config()), (8.0, config())), 100.0, Fixed(1))
    assert [seen.ended_at[0], seen.ended_at[1]] == pytest.approx([10.0, 12.0])
    assert queue.booked == pytest.approx(6.0 - 2 * 1.0), "two seconds alone, two together, two alone"
    (only,) = pool.consumers.values()
    only.add(Request(9, 100.0, config()), 100.0)
    assert only.left(100.0) == [], "nothing of it was chosen"


def test_what_runs_has_left_what_the_scalers_book_reckons() -> None:
    left: list[list[float]] = []

    class Look:
        def look(self, now: float, pool: Pool) -> float:
            pool.scale(1, now)
            left.append([seconds for each in pool.consumers.values() for seconds in each.left(now)])
            return now + 1.5

    pool = Pool(Priced(SWAP), HOUSE, OnePartition(), lambda: Scheduler(0.25), Seen())
    pool.run(asked((1.0, config()), (1.0, config(seconds=2.0))), 5.0, Look())
    assert left == [[], [0.75, 1.75], [0.1, 1.0], [0.1, 0.25]], (
        "since it was claimed, its part of the device, and a tenth"
    )


class Sizes:
    def __init__(self, *sizes: tuple[float, int]) -> None:
        self._sizes = dict(sizes)
        self.waiting: list[int] = []
        self.lag: list[int] = []

    def look(self, now: float, pool: Pool) -> float:
        self.waiting.append(len(pool.waiting))
        self.lag.append(sum(pool.lags.values()))
        pool.scale(self._sizes[now], now)
        return next((at for at in self._sizes if at > now), math.inf)


def test_lag_counts_what_runs_and_what_is_chosen_ahead_waits_no_more() -> None:
    """A quarter of the bucket is chosen beyond its slots, as the consumer does."""
    sizes = Sizes((0.0, 1), (7.0, 1))
    seen = Seen()
    pool = Pool(Priced(SWAP), HOUSE, OnePartition(), lambda: Scheduler(0.25), seen)
    pool.run(asked(*[(1.0, config())] * 7), 100.0, sizes)
    assert (sizes.waiting[1], sizes.lag[1]) == (2, 7)


def test_what_does_not_fit_the_backlog_is_fetched_when_there_is_room_and_fills_the_slots() -> None:
    _, seen = run(asked(*[(1.0, config())] * 12), house=replace(HOUSE, backlog_max=2))
    assert sorted(seen.began_at.values()) == pytest.approx([6.0] * 4 + [10.0] * 4 + [14.0] * 4)


def test_what_moves_waits_for_its_new_owner_and_the_slots_it_leaves_are_used_at_once() -> None:
    """The first request of the partition that moves has no slot for two of its pictures yet."""
    house, sizes, seen = House(2, rebalance_seconds=3.0), Sizes((0.0, 1), (9.5, 2)), Seen()
    pool = Pool(Priced(SWAP), house, InTurns(), lambda: Scheduler(0.25), seen)
    pool.run([Request(1, 1.0, config(), images=6), Request(2, 8.5, config()), Request(3, 10.0, config())], 100.0, sizes)
    assert seen.began_at[2] == pytest.approx(9.5)
    assert seen.began_at[1] == pytest.approx(12.5 + SWAP)
    assert seen.began_at[3] == pytest.approx(12.5 + SWAP + 4.0)


@pytest.mark.parametrize("batching", ["step", "whole"])
def test_nothing_is_lost_or_made_twice_while_replicas_come_and_go(batching: str) -> None:
    """What has all its slots is made where it is; the rest goes to the partition's new owner, and nothing of it."""
    what = config(batching=batching)
    lanes: tuple[Lane, ...] = ("interactive", "bulk")
    requests = [Request(n, n / 3, what, f"t{n % 3}", lanes[n % 2], images=1 + n % 5) for n in range(300)]
    sizes = Sizes((0.0, 1), (20.0, 2), (31.0, 1), (40.3, 2), (55.0, 0), (60.0, 2), (77.7, 1))
    seen = Seen()
    pool = Pool(Priced(SWAP), House(2, 1.0, rebalance_seconds=0.5), InTurns(), lambda: Scheduler(0.25), seen)
    pool.run(requests, 5000.0, sizes)
    assert seen.made == {request.number for request in requests}
    assert (pool.waiting, set(pool.lags.values())) == ({}, {0})
    assert not any(each.works for each in pool.consumers.values())


class Metered(VirtualLoop):
    seconds = 0.0  # of the device

    def turn(self) -> Turn | None:
        turn = super().turn()
        self.seconds += 0.0 if turn is None else turn.seconds
        return turn


@pytest.mark.parametrize("load", [0.1, 0.3, 0.7, 1.5])
def test_ends_and_device_time_are_those_of_the_virtual_engine_within_what_the_documentation_says(load: float) -> None:
    """The step loop turn by turn behind the real scheduler, beside the same pictures in a virtual pool: its text runs,
    decodes and waits for company to decode are only part of a price here."""
    device, bucket = VirtualDevice(load_bytes_per_second=34e9 / SWAP), 4
    jobs = poisson(load / device.full_batch_seconds(bucket, MEAN_STEPS), 500, 1)
    loop = Metered(device)
    run_there = ours.run(jobs, bucket, loop)
    priced = {
        steps: config(str(steps), steps=steps, seconds=device.full_batch_seconds(bucket, steps))
        for steps in ours.configs(bucket)
    }
    requests = [Request(job.number, job.arrival, priced[job.steps]) for job in jobs]
    pool, seen = run(requests, until=1e6, house=replace(HOUSE, ahead_slots=ours.AHEAD))
    there = [end - job.arrival for end, job in zip(run_there.finished, jobs, strict=True)]
    here = [seen.ended_at[job.number] - job.arrival for job in jobs]
    assert pool.busy_seconds == pytest.approx(loop.seconds, rel=0.03)
    assert max(seen.ended_at.values()) == pytest.approx(max(run_there.finished), rel=0.03)
    assert 0.85 < sum(here) / sum(there) < 1.0, "a result is told a little too early"
