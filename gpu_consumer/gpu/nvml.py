"""NVML behind one door: it is optional (nvidia-ml-py) and often unwell, and what it raises ends here.

An answer is a value, or None where this card does not tell; `CardLost` and `NvmlUnavailable` are all that is raised.
Calls may block for seconds while a driver recovers: never from an event loop.
"""

import contextlib
import importlib
from typing import Any, Self

from gpu_consumer.gpu.visible import Card

# nvml.h, nvmlReturn_t
_NEEDS_ANOTHER_INIT = frozenset({1, 9, 12, 18})  # uninitialised, driver not loaded, library not found, mismatch
_LOST = frozenset({15, 16})  # the GPU is lost; it needs a reset
_MISMATCH = 18
_MIG_ENABLED = 1


class NvmlUnavailable(Exception):
    """NVML cannot be used now, and why. The card may be well: work goes on."""


class CardLost(Exception):
    """The driver has lost the card."""


class Nvml:
    """An open session. One thread at a time."""

    def __init__(self, api: Any) -> None:
        self._api = api

    @classmethod
    def open(cls) -> Self:
        """Raises NvmlUnavailable."""
        try:
            api = importlib.import_module("pynvml")
        except Exception as error:
            raise NvmlUnavailable("nvidia-ml-py is not installed; install promptkiln[gpu] for it") from error
        try:
            api.nvmlInit()
        except Exception as error:
            raise NvmlUnavailable(_sentence(error)) from error
        return cls(api)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._api.nvmlShutdown()

    def ask(self, function: str, *arguments: object) -> Any:
        """What NVML answers; None where it, the card, the driver or this container's rights do not provide it.

        Raises CardLost, NvmlUnavailable.
        """
        try:
            return getattr(self._api, function)(*arguments)
        except Exception as error:  # an old binding lacks functions; a new one may raise what it likes
            code = getattr(error, "value", None)
            if code in _LOST:
                raise CardLost(str(error)) from error
            if code in _NEEDS_ANOTHER_INIT:
                raise NvmlUnavailable(_sentence(error)) from error
            return None

    def cards(self) -> list[Card]:
        """All that are let into this container, in the order of the bus; one that is lost keeps its place.

        Raises NvmlUnavailable.
        """
        return [self._card(handle) for handle in self.card_handles()]

    def card_handles(self) -> list[Any]:
        """In the order of the bus; None for a card that is lost. Raises NvmlUnavailable."""
        handles: list[Any] = []
        with contextlib.suppress(CardLost):
            count = self.ask("nvmlDeviceGetCount")
            for number in range(count if isinstance(count, int) else 0):
                try:
                    handle = self.ask("nvmlDeviceGetHandleByIndex", number)
                except CardLost:
                    handles.append(None)
                else:
                    handles.extend([handle] if handle is not None else [])  # else not ours to see, nor CUDA's
        return handles

    def slice_handles(self, card: Any) -> dict[str, Any]:
        """The MIG slices of a card by UUID, in the order of their places. Raises CardLost, NvmlUnavailable."""
        mode = self.ask("nvmlDeviceGetMigMode", card)
        if not mode or mode[0] != _MIG_ENABLED:
            return {}
        places = self.ask("nvmlDeviceGetMaxMigDeviceCount", card) or 0
        handles = (self.ask("nvmlDeviceGetMigDeviceHandleByIndex", card, place) for place in range(places))
        named = ((self.ask("nvmlDeviceGetUUID", handle), handle) for handle in handles if handle is not None)
        return {uuid: handle for uuid, handle in named if isinstance(uuid, str)}

    def _card(self, handle: Any) -> Card:
        with contextlib.suppress(CardLost):
            uuid = self.ask("nvmlDeviceGetUUID", handle) if handle is not None else None
            if isinstance(uuid, str):
                return Card(uuid, tuple(self.slice_handles(handle)))
        return Card("")


def _sentence(error: Exception) -> str:
    if getattr(error, "value", None) == _MISMATCH:
        return "NVML's library and the loaded driver differ in version, as after an upgrade; restart the node"
    return f"NVML does not answer ({error})"
