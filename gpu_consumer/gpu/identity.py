"""Our card or MIG slice, by UUID or PCI id: never by an index, which means another card to CUDA than to NVML."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_consumer.gpu.nvml import CardLost, Nvml, NvmlUnavailable
from gpu_consumer.gpu.visible import first_visible

_LOG = logging.getLogger(__name__)
# What the consumer gives an engine that was not told otherwise, so that an index means the same card as in NVML.
DEVICE_ORDER = "PCI_BUS_ID"


@dataclass(frozen=True, slots=True)
class Handles:
    """NVML's handles, and good for its session only. `slice` is None where the whole card is ours.

    `gpu_instance` is the slice's number on its card, by which events name it.
    """

    uuid: str
    card_uuid: str
    card: Any
    slice: Any = None
    gpu_instance: int | None = None


def visible_uuid(environment: Mapping[str, str]) -> str | None:
    """The UUID of what CUDA calls device 0 under this environment; None where that is not known. Blocks."""
    try:
        nvml = Nvml.open()
    except NvmlUnavailable as error:
        _LOG.info("%s; the card is identified by CUDA alone", error)
        return first_visible(environment.get("CUDA_VISIBLE_DEVICES"), (), _order(environment))
    try:
        return own_uuid(nvml, environment)
    except (CardLost, NvmlUnavailable) as error:
        _LOG.warning("%s; the card is identified by CUDA alone", error)
        return None
    finally:
        nvml.close()


def own_uuid(nvml: Nvml, environment: Mapping[str, str]) -> str | None:
    """As `visible_uuid`, in a session. Raises CardLost, NvmlUnavailable."""
    uuid = first_visible(environment.get("CUDA_VISIBLE_DEVICES"), nvml.cards(), _order(environment))
    if uuid == "":
        raise CardLost("it is listed, and does not answer")
    return uuid


def _order(environment: Mapping[str, str]) -> str:
    return environment.get("CUDA_DEVICE_ORDER", DEVICE_ORDER)


def find(nvml: Nvml, device: str) -> Handles | None:
    """The handles of a UUID (GPU-, MIG-) or of a PCI id such as 0000:65:00.0; None where NVML does not list it.

    Raises CardLost, NvmlUnavailable.
    """
    if device.startswith("MIG-"):
        return _slice(nvml, device)
    by = "nvmlDeviceGetHandleByUUID" if device.startswith("GPU-") else "nvmlDeviceGetHandleByPciBusId"
    card = nvml.ask(by, device)
    uuid = nvml.ask("nvmlDeviceGetUUID", card) if card is not None else None
    return Handles(uuid, uuid, card) if isinstance(uuid, str) else None


def _slice(nvml: Nvml, device: str) -> Handles | None:
    """By way of the cards: a slice's own handle leads to its card only in newer drivers."""
    lost: CardLost | None = None
    for card in nvml.card_handles():
        try:
            handle = nvml.slice_handles(card).get(device) if card is not None else None
            card_uuid = nvml.ask("nvmlDeviceGetUUID", card) if handle is not None else None
            if isinstance(card_uuid, str):
                return Handles(device, card_uuid, card, handle, nvml.ask("nvmlDeviceGetGpuInstanceId", handle))
        except CardLost as error:
            lost = error
    if lost is not None:
        raise lost
    return None
