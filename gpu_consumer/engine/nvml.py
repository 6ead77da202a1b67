"""The cards of this machine by NVML, which is optional (nvidia-ml-py) and often unwell: it never stops an engine."""

import contextlib
import logging

from gpu_consumer.engine.visible import Card

log = logging.getLogger(__name__)


def cards() -> list[Card]:
    """As NVML lists them; empty where NVML is missing or unwell, which never stops an engine."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception as error:  # not installed, no driver, or a driver newer than its library
        log.info("NVML is not available (%s); the card is identified by CUDA alone", error)
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())]
        return [Card(pynvml.nvmlDeviceGetUUID(handle), _slices(handle)) for handle in handles]
    except pynvml.NVMLError as error:
        log.warning("NVML does not list the cards (%s); the card is identified by CUDA alone", error)
        return []
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _slices(handle: object) -> tuple[str, ...]:
    import pynvml as nvml

    try:
        if nvml.nvmlDeviceGetMigMode(handle)[0] != nvml.NVML_DEVICE_MIG_ENABLE:
            return ()
        count = nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except nvml.NVMLError:  # a card without MIG
        return ()
    uuids = []
    for number in range(count):
        with contextlib.suppress(nvml.NVMLError):  # an empty place
            uuids.append(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)))
    return tuple(uuids)
