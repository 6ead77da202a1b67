"""An owner between leases, over doubles: when it opens, when it opens again, when it gives up, when it is silent."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Self, cast

import pytest

from admission.arrival import Arrival
from admission.errors import StateRefused
from admission.state import State
from streams import owner as module
from streams.errors import CannotOpen
from streams.holding import Surroundings
from streams.kafka.errors import LeaseVoid
from streams.kafka.settings import KafkaSettings
from streams.metrics import AdmissionMetrics
from streams.owner import Owner
from streams.owners import Owners
from streams.settings import AdmissionServiceSettings
from streams.tracing import OFF
from tests.unit.admission.scene import make_world


class Script:
    """What the doubles do: a lease and its holding, time after time."""

    def __init__(self) -> None:
        self.live: Callable[[], bool] = lambda: True
        self.openings: list[Exception | None] = []
        self.holdings: list[Exception | None] = []  # after the last, an owner holds until it is stopped
        self.log: list[str] = []
        self.committed: int | None = None
        self.held = asyncio.Event()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    script = Script()

    class FakeLease:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        async def open(self, fold: Any, unneeded: Any) -> None:
            script.log.append("open")
            if script.openings and (error := script.openings.pop(0)) is not None:
                raise error

        async def transact(self, build: Callable[[], Any]) -> None:
            build()
            script.log.append("transact")

        async def close(self) -> None:
            script.log.append("close")

    class FakeReader:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None: ...

    class FakeHolding:
        def __init__(self, *arguments: Any) -> None:
            self.state: State = arguments[2]
            self.stopping: asyncio.Event = arguments[-2]
            self.moved: Callable[[int], None] = arguments[-1]

        async def serve(self) -> None:
            script.log.append("hold")
            if script.holdings and (error := script.holdings.pop(0)) is not None:
                raise error
            self.moved(self.state.next)
            script.held.set()
            await self.stopping.wait()

    monkeypatch.setattr(module, "Lease", FakeLease)
    monkeypatch.setattr(module, "ResultsReader", FakeReader)
    monkeypatch.setattr(module, "RequestsReader", FakeReader)
    monkeypatch.setattr(module, "Holding", FakeHolding)
    return script


class FakeCluster:
    def __init__(self, script: Script) -> None:
        self._script = script

    async def end(self, topic: str, partition: int) -> int:
        return 0

    async def committed(self, partition: int) -> int | None:
        return self._script.committed


class FakeEmission:
    problem = None

    async def emit(self, decisions: Any, *, partition: int) -> None: ...


class FakeTelling:
    def begin(self, state: State) -> State:
        return state

    def end(self, teller: State) -> None: ...


def around(script: Script, **settings: Any) -> Surroundings:
    async def is_live_member() -> bool:
        script.log.append("member?")
        return script.live()

    fast: dict[str, Any] = {"reopen_backoff_seconds_min": 0.001, "reopen_backoff_seconds_max": 0.002}
    return Surroundings(
        tracing=OFF,
        settings=AdmissionServiceSettings(**fast | settings),
        kafka=KafkaSettings(bootstrap_servers="127.0.0.1:1"),
        declared=make_world(),
        world=cast(Any, None),
        cluster=cast(Any, FakeCluster(script)),
        emission=cast(Any, FakeEmission()),
        telling=cast(Any, FakeTelling()),
        placing=cast(Any, None),
        metrics=AdmissionMetrics(),
        is_live_member=is_live_member,
    )


async def stop(owner: Owner, task: "asyncio.Task[None]") -> None:
    owner.ask_to_stop()
    await asyncio.wait_for(task, 60)


async def test_membership_is_asked_before_every_opening(script: Script) -> None:
    script.holdings = [LeaseVoid("fenced"), LeaseVoid("fenced")]
    owner = Owner(0, around(script))
    task = asyncio.create_task(owner.run())
    await asyncio.wait_for(script.held.wait(), 60)
    assert owner.problem is None
    await stop(owner, task)
    assert script.log == ["member?", "open", "transact", "hold", "close"] * 3


async def test_a_woken_zombie_does_not_fence_its_successor(script: Script) -> None:  # case AIO-10
    answers = iter([False, False, False, True])
    script.live = lambda: next(answers)
    owner = Owner(0, around(script))
    task = asyncio.create_task(owner.run())
    await asyncio.wait_for(script.held.wait(), 60)
    await stop(owner, task)
    assert script.log[:5] == ["member?", "member?", "member?", "member?", "open"]


async def test_void_and_no_longer_ours_is_silent(script: Script, caplog: pytest.LogCaptureFixture) -> None:
    owner = Owner(0, around(script))

    async def fenced_after_stop() -> bool:
        owner.ask_to_stop()
        raise LeaseVoid("fenced")

    object.__setattr__(owner._around, "is_live_member", fenced_after_stop)
    await owner.run()
    assert not caplog.records


async def test_ours_and_not_to_be_opened_ends_in_an_error(script: Script) -> None:
    script.openings = [LeaseVoid("no broker")] * 10_000
    owner = Owner(3, around(script, reopen_seconds_max=0.02))
    with pytest.raises(CannotOpen, match=r"requests\[3\] is ours"):
        await asyncio.wait_for(owner.run(), 60)
    assert "transact" not in script.log  # nothing was committed
    assert "no broker" in (owner.problem or "")


async def test_a_batch_that_voids_every_lease_backs_off_and_gives_up(script: Script) -> None:  # case KQ-20
    script.holdings = [LeaseVoid("refused")] * 10_000
    owner = Owner(0, around(script, reopen_seconds_max=0.05))
    with pytest.raises(CannotOpen):
        await asyncio.wait_for(owner.run(), 60)


async def test_a_truncated_log_is_refused_in_a_sentence(script: Script) -> None:  # case FST-20
    script.committed = 17
    with pytest.raises(StateRefused, match="committed offset 17"):
        await Owner(0, around(script)).run()
    assert script.log[-1] == "close"
    script.holdings = []
    owner = Owner(0, around(script, accept_loss=True))
    task = asyncio.create_task(owner.run())
    await asyncio.wait_for(script.held.wait(), 60)
    await stop(owner, task)


@pytest.fixture
async def owners(script: Script) -> AsyncIterator[Owners]:
    owners = Owners(around(script, revoke_grace_seconds=0.05, stop_grace_seconds=1))
    yield owners
    await owners.close()


async def test_readiness_needs_every_assigned_partition(script: Script, owners: Owners) -> None:
    assert owners.problem is not None  # not joined
    await owners.assigned(set())
    ready: list[str | None] = [owners.problem]  # more members than partitions: harmless (case FST-11)
    script.live = lambda: False
    await owners.assigned({1})
    ready.append(owners.problem)
    await owners.revoked({1})
    ready.append(owners.problem)
    assert ready == [None, "requests[1]: its lease is not open yet", None]


async def test_requests_after_a_revocation_go_nowhere(script: Script, owners: Owners) -> None:  # case AIO-17
    await owners.assigned({0})
    await owners.revoked({0})
    await owners.feed(0, [Arrival(0, 0, 0, None, None)])


async def test_an_owner_that_does_not_stop_in_time_is_cancelled(
    script: Script, owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:  # case FST-10
    monkeypatch.setattr(Owner, "ask_to_stop", lambda _: None)
    await owners.assigned({0})
    await asyncio.wait_for(script.held.wait(), 60)
    await asyncio.wait_for(owners.revoked({0}), 60)
    assert script.log[-1] == "close"


async def test_what_ends_an_owner_is_told(script: Script, owners: Owners) -> None:
    script.committed = 17
    await owners.assigned({0})
    assert isinstance(await asyncio.wait_for(owners.failure, 60), StateRefused)


async def test_a_long_opening_does_not_keep_the_loop_from_its_heartbeats(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    beaten, loop, opened = threading.Event(), asyncio.get_running_loop(), State.opened

    def slow(*arguments: Any, **more: Any) -> Any:
        loop.call_soon_threadsafe(beaten.set)
        assert beaten.wait(60), "the loop stood still"
        return opened(*arguments, **more)

    monkeypatch.setattr(State, "opened", slow)
    owner = Owner(0, around(script))
    task = asyncio.create_task(owner.run())
    await asyncio.wait_for(script.held.wait(), 120)
    await stop(owner, task)
