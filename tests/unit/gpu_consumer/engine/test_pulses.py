"""What a team says of itself, of what its processes say."""

from gpu_consumer.engine.protocol import MemoryReading, Pulse
from gpu_consumer.engine.pulses import merged

IDLE = Pulse("nothing", steps=3, models=("red model",))


def red(fill: int, slots: int = 4, **different: object) -> Pulse:
    values = {"steps": 5, "step_seconds": 0.1, "models": ("blue model", "red model")} | different
    return Pulse("step", "red", slots, fill, **values)  # type: ignore[arg-type]


def test_those_that_are_idle_could_run_as_many_as_the_others() -> None:
    assert merged([IDLE, IDLE], "red") == Pulse("nothing", steps=6, models=("red model",))
    pulse = merged([red(3), IDLE], "red")
    assert (pulse.doing, pulse.kind, pulse.slots, pulse.fill, pulse.steps) == ("step", "red", 8, 3, 8)
    assert merged([red(2, slots=2), red(4)], "red").slots == 6, "one of them was granted less"
    assert merged([red(2, slots=2), IDLE, IDLE], "red").slots == 6


def test_what_one_still_says_of_the_kind_before_counts_for_nothing() -> None:
    pulse = merged([red(1), Pulse("step", "green", 2, 2, models=("green model",))], "green")
    assert (pulse.kind, pulse.slots, pulse.fill) == ("green", 4, 2)
    before = merged([red(1), IDLE], "green")
    assert (before.kind, before.fill) == ("red", 1)


def test_the_slowest_sets_the_time_of_a_step() -> None:
    pulse = merged([red(1, silent_seconds=2.0), red(1, step_seconds=0.3), IDLE], "red")
    assert (pulse.step_seconds, pulse.silent_seconds) == (0.3, 2.0)


def test_the_model_that_was_used_last_is_at_the_end() -> None:
    assert merged([red(1), Pulse("nothing", models=("red model", "green model"))], "red").models == (
        "green model", "blue model", "red model",
    )  # fmt: skip


def test_a_load_shows_while_nobody_steps() -> None:
    assert merged([Pulse("load"), IDLE], None).doing == "load"
    assert merged([Pulse("load"), red(1)], None).doing == "step"


def test_what_each_of_them_has_made_is_said_together() -> None:
    assert merged([red(1, made={"a": 1}), red(1, made={"b": 2}), IDLE], "red").made == {"a": 1, "b": 2}


def test_memory_adds_up_but_for_what_is_free_to_each() -> None:
    readings = [MemoryReading(30, 40, 50, 7), MemoryReading(1, 2, 3, 9)]
    pulse = merged([red(1, memory=one) for one in readings], "red")
    assert pulse.memory == MemoryReading(31, 42, 53, 9)
