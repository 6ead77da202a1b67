"""Is the card well? What NVML reports, as faults; which of them count is a setting.

Sources: NVIDIA's "GPU Memory Error Management" (row remapping), "Dynamic Page Retirement" and "Xid Errors".
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Fault = Literal["lost", "ecc", "remap_pending", "remap_failed", "retirement_pending", "xid"]
FAULTS: tuple[Fault, ...] = get_args(Fault)

# A card's own fault, whatever program ran.
CARD_XIDS: Mapping[int, str] = {
    48: "uncorrectable memory error",
    62: "halt of its internal microcontroller",
    63: "memory page or row taken out of use",
    64: "memory page or row that could not be taken out of use",
    74: "NVLink error",
    79: "off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "time-out of its system processor",
    120: "error of its system processor",
    140: "unrecovered memory error",
}
# What a program's own kernels can cause, or what is left behind when one is killed: our own killed engines would else
# make a sound card unready. An illegal access is 31, a kernel that never ends 8 or 43, a cleanup after either 45. The
# engine that meets one of them dies and proves itself by its known answers before it publishes again.
PROGRAM_XIDS: Mapping[int, str] = {
    8: "kernel that ran too long",
    13: "exception in a kernel",
    31: "memory page fault",
    43: "stop of a channel",
    45: "cleanup after a program that ended",
    68: "exception in the video decoder",
    69: "exception in the graphics engine",
    109: "time-out of a context switch",
}


@dataclass(frozen=True, slots=True)
class Condition:
    """As read; None where the card does not tell. `ecc_uncorrected` counts since the driver was loaded."""

    ecc_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retirement_pending: bool | None = None


def faults(condition: Condition, *, lost: bool, xids: Collection[int]) -> dict[Fault, str]:
    """What is wrong, each in a clause. `xids`: those of the card's own fault that still count."""
    found: dict[Fault, str] = {}
    if lost:
        found["lost"] = "the driver has lost it"
    if condition.ecc_uncorrected:
        found["ecc"] = f"{condition.ecc_uncorrected} uncorrectable memory errors since the driver was loaded"
    if condition.remap_pending:
        found["remap_pending"] = "memory rows wait to be remapped at the next reset"
    if condition.remap_failed:
        found["remap_failed"] = "memory rows could not be remapped: the card is to be replaced"
    if condition.retirement_pending:
        found["retirement_pending"] = "memory pages wait to be retired at the next reset"
    if xids:
        found["xid"] = ", ".join(_named(xid) for xid in sorted(xids))
    return found


def _named(xid: int) -> str:
    meaning = CARD_XIDS.get(xid) or PROGRAM_XIDS.get(xid)
    return f"Xid {xid} ({meaning})" if meaning else f"Xid {xid}"
