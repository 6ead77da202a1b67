"""Two thousand records of the fuzz, and that it finds what is planted. `make fuzz` runs two hundred thousand."""

import json
from typing import Any

import pytest

from tests.fuzz.growth import SHAPES, calls_grown, kept_bytes, peak_bytes
from tests.fuzz.run import REACHED, Fuzz, slope
from tests.fuzz.samples import Sample
from tests.fuzz.wire import Wire

RARE = {"prompt_too_long", "unknown_config", "deadline_infeasible", "config_retired", "invalid_seed", "too_large"}


def test_two_thousand_mutated_records_have_one_end_each_and_block_nobody() -> None:
    fuzz = Fuzz(seed=20)
    for _ in range(2000):
        fuzz.step()
    assert fuzz.judge.ends.total() == 2000
    assert set(fuzz.judge.ends) >= REACHED - RARE
    assert len(fuzz.corpus) > 20, "nothing guides it"
    fuzz.judge.state.check_integrity()


def test_every_offset_of_a_broken_batch_comes_to_admission_once() -> None:
    wire = Wire(seed=20)
    for _ in range(500):
        wire.step()
    assert wire.judge.state.next == wire.records >= 500
    assert 50 < wire.unreadable < wire.records - 50


def test_a_seed_gives_the_same_records_again() -> None:
    """One after the other: of two at once the second finds what the first left in the caches."""

    def ran() -> Fuzz:
        fuzz = Fuzz(seed=3)
        for _ in range(300):
            fuzz.step()
        return fuzz

    one, other = ran(), ran()
    assert one.judge.ends == other.judge.ends
    assert one.corpus == other.corpus


def nothing(*_: Any) -> None:
    return None


PLANTED = {
    "what is no JSON is read": ("schemas.codec._decoder", json.JSONDecoder()),
    "any depth is read": ("schemas.codec.too_deep", lambda *_: False),
    "all is quoted": ("admission.draft._clipped", lambda text, length: text),
    "any key and headers": ("admission.stages.limits.envelope", nothing),
    "no name is remembered": ("admission.window.Window.add", nothing),
    "a stage trips": ("admission.stages.config.Refusal", None),
}


@pytest.mark.parametrize(("target", "flawed"), PLANTED.values(), ids=PLANTED)
def test_what_is_planted_is_found(monkeypatch: pytest.MonkeyPatch, target: str, flawed: Any) -> None:
    monkeypatch.setattr(target, flawed)
    fuzz = Fuzz(seed=20)
    found = None
    for _ in range(6000):
        try:
            fuzz.step()
        except Exception as error:
            found = error
            break
    assert found is not None
    assert "seed 20, record" in found.__notes__[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_ten_times_the_bytes_take_ten_times_the_calls_at_most(shape: str) -> None:
    small, large = calls_grown(shape, 3_000)
    assert large <= 12 * small


@pytest.mark.parametrize("shape", ["fields", "metadata", "lists", "the last field twice", "many digits"])
def test_memory_for_a_record_is_in_proportion_to_its_bytes(shape: str) -> None:
    peak, allowed = peak_bytes(SHAPES[shape](200_000))
    assert peak <= allowed


def test_nothing_of_a_record_stays_but_its_name_for_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert slope(list(kept_bytes(20, 300, []))) < 20_000
    monkeypatch.setattr("admission.window.Window.expire", nothing)
    assert slope(list(kept_bytes(20, 300, []))) > 20_000, "a leak is seen"


def test_a_sample_is_as_large_as_all_of_it() -> None:
    assert Sample(b"12", b"3", (("45", b"6"), ("7", None))).size == 7
