"""Which card is ours: CUDA_VISIBLE_DEVICES, which may hold indexes, UUIDs, beginnings of UUIDs or MIG slices.

NVIDIA_VISIBLE_DEVICES is not read: it speaks to the container runtime, which says `void` there also when it has let a
card in by another way. Which cards were let in is what NVML lists.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU as NVML lists it, in the order of the PCI bus, with the UUIDs of its MIG slices. No UUID: it is lost."""

    uuid: str
    slices: tuple[str, ...] = ()


def first_visible(value: str | None, cards: Sequence[Card], order: str = "PCI_BUS_ID") -> str | None:
    """The UUID of the device that CUDA calls 0, empty if that is lost; None where there is none or it is not known.

    `value` is CUDA_VISIBLE_DEVICES, None if it is not set; `order` is CUDA_DEVICE_ORDER. With no `cards` (no NVML),
    only a full UUID is known. CUDA reads the list from the left and stops at the first entry that names nothing. It
    opens a single slice, and no whole card beside one (NVIDIA's MIG User Guide, "CUDA Device Enumeration"), so the
    first slice in the list is device 0 wherever it stands.
    """
    if value is None:
        if order != "PCI_BUS_ID" and len(cards) > 1:
            return None
        devices = [_opened(card) for card in cards]
    else:
        devices = list(_named(value.split(","), cards, by_bus=order == "PCI_BUS_ID"))
    return next((uuid for uuid in devices if uuid.startswith("MIG-")), devices[0] if devices else None)


def _named(entries: Iterable[str], cards: Sequence[Card], *, by_bus: bool) -> Iterable[str]:
    for entry in map(str.strip, entries):
        uuid = _by_index(entry, cards, by_bus=by_bus) if entry[:1].isdigit() else _by_uuid(entry, cards)
        if uuid is None:
            return  # also "", "-1" and "NoDevFiles", by which people hide all cards
        yield uuid


def _by_index(entry: str, cards: Sequence[Card], *, by_bus: bool) -> str | None:
    if not (entry.isascii() and entry.isdigit() and len(entry) < 10) or int(entry) >= len(cards):
        return None
    if not by_bus and len(cards) > 1:
        return None  # the fastest first, by a measure that CUDA keeps to itself
    return _opened(cards[int(entry)])


def _by_uuid(entry: str, cards: Sequence[Card]) -> str | None:
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    known = [uuid for card in cards for uuid in (card.uuid, *card.slices)]
    matching = [uuid for uuid in known if uuid.startswith(entry)]
    if len(matching) == 1:
        # A whole card named while it is sliced: CUDA opens its first slice.
        return next((_opened(card) for card in cards if card.uuid == matching[0]), matching[0])
    # Not listed at all: NVML is missing, or an old driver's MIG-GPU-<uuid>/<instance>/<instance>. Two: a beginning
    # that fits both, which CUDA refuses.
    return entry if not matching and not cards else None


def _opened(card: Card) -> str:
    return card.slices[0] if card.slices else card.uuid
