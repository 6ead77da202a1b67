"""Which card is ours: CUDA_VISIBLE_DEVICES, which may hold indexes, UUIDs, beginnings of UUIDs or MIG slices."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU as NVML lists it, in the order of the PCI bus, with the UUIDs of its MIG slices."""

    uuid: str
    slices: tuple[str, ...] = ()


def first_visible(value: str | None, cards: Sequence[Card]) -> str | None:
    """The UUID of the device that CUDA calls 0; None where there is none, or where that cannot be known.

    `value` is CUDA_VISIBLE_DEVICES, None if it is not set. With no `cards` (no NVML), only a full UUID is known. CUDA
    reads the list from the left and stops at the first entry that names nothing, so only the first entry matters.
    """
    if value is None:
        return _index(0, cards)
    entry = value.split(",")[0].strip()
    if entry.isascii() and entry.isdigit():
        return _index(int(entry), cards)
    if not entry.startswith(("GPU-", "MIG-")):
        return None  # "", "-1", "NoDevFiles": nothing is visible
    known = [uuid for card in cards for uuid in (card.uuid, *card.slices)]
    matching = [uuid for uuid in known if uuid.startswith(entry)]
    if len(matching) == 1:
        return matching[0]
    # Not listed at all: NVML is missing, or an old driver's MIG-GPU-<uuid>/<instance>/<instance>. Two: a beginning
    # that fits both, which CUDA refuses.
    return entry if not matching and not cards else None


def _index(number: int, cards: Sequence[Card]) -> str | None:
    if number >= len(cards):
        return None
    card = cards[number]
    return card.slices[0] if card.slices else card.uuid  # CUDA opens one slice of a card in MIG mode: its first
