"""Which findings are faults of the card."""

import pytest

from gpu_consumer.gpu.health import CARD_XIDS, FAULTS, PROGRAM_XIDS, Condition, Fault, faults


def test_a_card_that_is_well_or_tells_nothing() -> None:
    assert faults(Condition(), lost=False, xids=()) == {}
    assert faults(Condition(0, False, False, False), lost=False, xids=()) == {}


@pytest.mark.parametrize(
    ("condition", "fault", "words"),
    [
        (Condition(ecc_uncorrected=2), "ecc", "2 uncorrectable"),
        (Condition(remap_pending=True), "remap_pending", "at the next reset"),
        (Condition(remap_failed=True), "remap_failed", "replaced"),
        (Condition(retirement_pending=True), "retirement_pending", "retired"),
    ],
)
def test_a_fault_is_named(condition: Condition, fault: Fault, words: str) -> None:
    """Case GPU-19."""
    found = faults(condition, lost=False, xids=())
    assert list(found) == [fault]
    assert words in found[fault]


def test_all_at_once_are_all_named() -> None:
    found = faults(Condition(1, True, True, True), lost=True, xids={79, 48, 7777})
    assert tuple(found) == FAULTS
    assert found["xid"] == "Xid 48 (uncorrectable memory error), Xid 79 (off the bus), Xid 7777"


def test_what_a_program_can_cause_is_not_the_cards_fault() -> None:
    assert not set(CARD_XIDS) & set(PROGRAM_XIDS)
    assert {13, 31, 43, 45} <= set(PROGRAM_XIDS)
    assert {48, 63, 64, 74, 79, 94, 95, 119, 120} <= set(CARD_XIDS)
