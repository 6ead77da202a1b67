"""Settings of the telemetry."""

from typing import Any

import pytest
from pydantic import ValidationError

from gpu_consumer.gpu.health import FAULTS
from gpu_consumer.gpu.settings import GpuTelemetrySettings


def test_lists_come_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GpuTelemetrySettings().unready_on == frozenset(FAULTS)
    monkeypatch.setenv("KILN_GPU_TELEMETRY_UNREADY_ON", "lost, xid")
    monkeypatch.setenv("KILN_GPU_TELEMETRY_XIDS", "79,48,")
    settings = GpuTelemetrySettings()
    assert settings.unready_on == {"lost", "xid"}
    assert settings.xids == {48, 79}
    monkeypatch.setenv("KILN_GPU_TELEMETRY_UNREADY_ON", "")
    assert GpuTelemetrySettings().unready_on == frozenset()


@pytest.mark.parametrize("device", ["", "GPU-8932f937", "MIG-GPU-89/1/0", "0000:65:00.0", "65:00.0"])
def test_a_device_is_a_uuid_or_a_pci_id(device: str) -> None:
    assert GpuTelemetrySettings(device=device).device == device


@pytest.mark.parametrize(
    "values",
    [
        {"device": "0"},
        {"device": "cuda:1"},
        {"unready_on": "heat"},
        {"xids": "many"},
        {"every_seconds": 5, "window_seconds": 4},
        {"every_seconds": 10},
    ],
)
def test_what_cannot_work_does_not_start(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        GpuTelemetrySettings(**values)
