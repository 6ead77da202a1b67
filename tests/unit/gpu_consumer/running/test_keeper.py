"""An engine that does not come up again, and what is made of it meanwhile."""

from typing import Any

import pytest

from gpu_consumer.engine.protocol import Batch, EngineDied, Ready
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.running import keeper
from gpu_consumer.running.keeper import EngineKeeper, EngineUnusable
from gpu_consumer.settings import GpuConsumerSettings
from tests.scripted import ScriptedEngine
from tests.unit.gpu_consumer.bench import Bench
from tests.unit.gpu_consumer.work import FixedClock, work_item


async def test_nothing_is_asked_of_an_engine_until_a_fresh_one_has_given_its_known_answer(bench: Bench) -> None:
    """Case GPU-02: after a fault of the device the first that starts draws another picture than before, and ends."""
    start, submit, trusted = bench.engine.start, bench.engine.submit, True
    wrong = iter([EngineDied("a picture that is known came out as another one"), None])

    async def start_again() -> Ready:
        nonlocal trusted
        if (error := next(wrong)) is not None:
            raise error
        ready = await start()
        trusted = True
        return ready

    async def watched(batch: Batch) -> None:
        assert trusted
        await submit(batch)

    bench.engine.start, bench.engine.submit = start_again, watched  # type: ignore[method-assign]
    bench.engine.gate.clear()
    (job,) = bench.take(work_item("job"))
    await bench.until(lambda: job.started)
    trusted = False
    bench.engine.die()
    bench.engine.gate.set()
    bench.take(work_item("later"), offset=1)
    await bench.idle()
    assert {name: found.attempt for name, found in bench.results().items()} == {"job": 2, "later": 1}
    assert next(wrong, "all were used") == "all were used"
    assert bench.value("engine_restarts_total") == 2


async def test_a_card_on_which_nothing_starts_is_tried_ever_less_often_and_then_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Case GPU-05. Kubernetes then starts the pod again, later each time; the alerts KilnEngineRestarts and
    KilnProcessRestarts tell people; and KEDA, which counts records and not pods, adds none for it."""
    pauses: list[float] = []

    class Time:
        @staticmethod
        async def sleep(seconds: float) -> None:
            pauses.append(seconds)

    class NoCard(ScriptedEngine):
        async def start(self) -> Ready:
            raise EngineDied("NVML and the driver are of two versions")

    monkeypatch.setattr(keeper, "asyncio", Time)
    values: dict[str, Any] = {"pool": "a", "restarts_per_hour_max": 9}
    kept = EngineKeeper(GpuConsumerSettings(**values), NoCard(), GpuMetrics(), FixedClock())
    with pytest.raises(EngineUnusable, match="9 times within an hour; look at the card and at this: NVML"):
        await kept.restart("it died")
    assert pauses == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 30, 30, 30]
    assert kept.restarting is not None, "never ready again"
