"""The step loop on a virtual device: its rules are those of the real one, and its seconds are those of the table."""

from typing import Any

import pytest

from gpu_consumer.engine.protocol import Batch, Drawn, Ended, Event, Flaw, Item, Joined, Observed, Picture, Refused
from gpu_consumer.engine.virtual.device import VirtualDevice
from gpu_consumer.engine.virtual.loop import DECODE_WAIT_STEPS, VirtualLoop
from schemas.config import GenerationConfig
from tests.unit.gpu_consumer.work import config

DEVICE = VirtualDevice(
    steps=((1, 1.0), (4, 2.0)),
    text=(0.0, 0.1),
    decode=(0.0, 0.5),
    memory_bytes=1000,
    model_bytes=100,
    load_bytes_per_second=10,
)


def batch(names: str, **changes: Any) -> Batch:
    return Batch(_config(**changes), tuple(Item(name, f"a {name}", "", 7) for name in names))


def _config(**changes: Any) -> GenerationConfig:
    return config(**{"price": {"gpu_seconds": 1, "vram_bytes": 10}, **changes})


class Played:
    """Turns until there is nothing to do: what was said, and when."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.now = 0.0
        self.said: list[tuple[float, Event]] = []

    def turn(self) -> bool:
        turn = self.loop.turn()
        if turn is None:
            return False
        self.said += [(self.now, event) for event in turn.started]
        self.now += turn.seconds
        self.said += [(self.now, event) for event in turn.ended]
        return True

    def play(self) -> "Played":
        while self.turn():
            pass
        return self

    def ends(self) -> dict[str, Ended]:
        return {event.key: event for _, event in self.said if isinstance(event, Ended)}

    def when(self, kind: type[Joined] | type[Drawn]) -> dict[str, float]:
        return {key: at for at, event in self.said if isinstance(event, kind) for key in event.keys}


def play(*batches: Batch, device: VirtualDevice = DEVICE, **options: Any) -> Played:
    loop = VirtualLoop(device, **options)
    for each in batches:
        loop.send(each)
    return Played(loop).play()


def test_one_picture_pays_for_a_load_and_a_full_bucket() -> None:
    played = play(batch("a", steps=3))
    # 10 to load, 4 texts, 3 steps of 4 slots, 4 pictures decoded: nobody but one is there.
    assert played.now == pytest.approx(10 + 0.4 + 3 * 2 + 2)
    ended = played.ends()["a"]
    assert isinstance(ended.outcome, Picture)
    assert ended.share.timings == pytest.approx({"text": 0.4, "denoise": 6, "decode": 2, "encode": 0})
    assert (ended.share.batch_size, ended.share.bucket) == (1, 4)
    assert [event.peak.bytes for _, event in played.said if isinstance(event, Observed)] == [40]


def test_a_slot_that_is_free_is_taken_at_the_next_step() -> None:
    played = play(batch("abc", steps=6), batch("d", steps=2), batch("e", steps=1), decode_bucket=1)
    joined, drawn = played.when(Joined), played.when(Drawn)
    assert joined["a"] == joined["d"] < drawn["d"] <= joined["e"] < drawn["a"]
    assert played.ends().keys() == set("abcde")
    assert sum(ended.share.gpu_seconds for ended in played.ends().values()) == pytest.approx(played.now - 10)


def test_another_kind_waits_until_everything_before_it_has_ended() -> None:
    played = play(batch("a", steps=3), batch("b", width=128), batch("c", steps=3))
    order = [event for _, event in played.said if isinstance(event, Joined | Ended)]
    keys = [event.keys[0] if isinstance(event, Joined) else event.key for event in order]
    assert keys == ["a", "a", "b", "b", "c", "c"]


def test_what_runs_whole_starts_and_ends_together() -> None:
    played = play(batch("ab", batching="whole", steps=3), batch("c", batching="whole", steps=3))
    joined, drawn = played.when(Joined), played.when(Drawn)
    assert joined["a"] == joined["b"]
    assert joined["c"] >= drawn["a"] == drawn["b"]


def test_who_is_drawn_waits_a_few_steps_for_company_at_the_decoder() -> None:
    played = play(batch("a", steps=20), batch("b", steps=3), batch("c", steps=5), batch("d", steps=18))
    at = {event.key: when for when, event in played.said if isinstance(event, Ended)}
    assert at["b"] == at["c"], "c came within the wait"
    drawn = played.when(Drawn)
    assert at["b"] - drawn["b"] == pytest.approx(DECODE_WAIT_STEPS * 2 + 2)


def test_the_wait_is_that_of_the_real_loop() -> None:
    from gpu_consumer.engine.stepwise import loop

    assert loop.DECODE_WAIT_STEPS == DECODE_WAIT_STEPS


def test_texts_of_those_who_wait_fill_up_a_run_of_the_encoder() -> None:
    played = play(batch("abcd", steps=4), batch("efgh", steps=4), decode_bucket=1)
    texts = sum(ended.share.timings["text"] for ended in played.ends().values() if "text" in ended.share.timings)
    assert texts == pytest.approx(2 * 0.4), "eight texts, two full runs"


def test_who_leaves_ends_before_the_next_step_wherever_it_is() -> None:
    loop = VirtualLoop(DEVICE)
    loop.send(batch("abcd", steps=9))
    loop.send(batch("e", steps=9))
    played = Played(loop)
    for _ in range(3):  # the load, then two steps
        played.turn()
    loop.leave(["b", "e", "unknown"])
    steps = loop.steps
    played.play()
    ends = played.ends()
    assert (ends["b"].outcome, ends["e"].outcome) == (None, None)
    assert ends["b"].share.gpu_seconds == pytest.approx((0.4 + 2 * 2) / 4)
    assert loop.steps == steps + 7, "nobody waited for them"
    assert all(isinstance(ends[key].outcome, Picture) for key in "acd")


def test_a_seed_beyond_64_bits_is_the_items_own_flaw() -> None:
    loop = VirtualLoop(DEVICE)
    loop.send(Batch(_config(), (Item("a", "a", "", 1 << 64), Item("b", "b", "", 1))))
    ends = Played(loop).play().ends()
    assert isinstance(ends["a"].outcome, Flaw)
    assert isinstance(ends["b"].outcome, Picture)


def test_memory_lowers_the_bucket_and_the_picture_says_so() -> None:
    played = play(batch("abcd", price={"gpu_seconds": 1, "vram_bytes": 300}))
    buckets = [ended.outcome.bucket for ended in played.ends().values() if isinstance(ended.outcome, Picture)]
    assert buckets == [2, 2, 2, 2]  # 0.9 of 900 bytes, two times 300


def test_what_does_not_fit_alone_is_out_of_memory() -> None:
    played = play(batch("a", price={"gpu_seconds": 1, "vram_bytes": 900}), batch("b"))
    outcome = played.ends()["a"].outcome
    assert isinstance(outcome, Flaw)
    assert outcome.code == "out_of_memory"
    assert isinstance(played.ends()["b"].outcome, Picture)


def test_a_model_that_does_not_fit_is_refused_and_the_engine_lives_on() -> None:
    played = play(batch("ab"), device=VirtualDevice(memory_bytes=10, model_bytes=100))
    assert [event.keys for _, event in played.said if isinstance(event, Refused)] == [("a",), ("b",)]
    assert played.loop.turn() is None


def test_the_model_not_used_for_longest_leaves() -> None:
    device = VirtualDevice(memory_bytes=250, model_bytes=100, load_bytes_per_second=10)
    models = [{"name": name, "digest": f"sha256:{digit * 64}"} for name, digit in zip("xyz", "123", strict=True)]
    loads = []
    loop = VirtualLoop(device)
    for number, which in enumerate((0, 1, 0, 2, 0, 1)):
        made = _config(model=models[which], price={"gpu_seconds": 1, "vram_bytes": 1})
        loop.send(Batch(made, (Item(str(number), "a", "", 1),)))
        before = loop.pulse().models
        Played(loop).play()
        loads.append(made.model_key not in before)
    assert loads == [True, True, False, True, False, True]
