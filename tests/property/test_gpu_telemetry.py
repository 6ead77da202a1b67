"""Case GPU-07: whatever call of NVML raises whatever, whenever, nothing escapes, and the card is seen again after."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from gpu_consumer.gpu.identity import visible_uuid
from gpu_consumer.gpu.settings import GpuTelemetrySettings
from gpu_consumer.gpu.telemetry import GpuTelemetry
from tests.unit.gpu_consumer.gpu.fake import FUNCTIONS, M1, M2, A, B, FakeCard, FakeNvml

ERRORS: st.SearchStrategy[int | Exception] = st.one_of(
    st.integers(0, 32),
    st.just(999),
    st.sampled_from([OSError("no"), UnicodeDecodeError("utf-8", b"", 0, 1, "no"), ValueError("no"), TypeError("no")]),
)
FAILURES = st.dictionaries(st.sampled_from(("*", *FUNCTIONS)), ERRORS, max_size=4)
VISIBLE = st.sampled_from([None, "0", "1", "", A, B, M1, "MIG-7c", f"7,{M2}"])
VALUES = st.sampled_from([None, -1, 0, 1 << 64, 2.5, "text", float("nan"), b"bytes"])
FIELDS = st.sampled_from(["used", "total", "busy", "milliwatts", "celsius", "reasons", "ecc", "retiring"])


@given(st.lists(st.tuples(FAILURES, st.dictionaries(FIELDS, VALUES), st.booleans()), max_size=6), VISIBLE)
def test_nothing_escapes(plan: list[tuple[dict[str, int | Exception], dict[str, Any], bool]], visible: str) -> None:
    card, environment = FakeCard(A, slices=(M1, M2)), {"CUDA_VISIBLE_DEVICES": visible} if visible is not None else {}
    telemetry = GpuTelemetry(GpuTelemetrySettings(), environment)
    registry = CollectorRegistry()
    registry.register(telemetry)
    with FakeNvml(card, FakeCard(B)).installed() as nvml:
        for fails, values, reloaded in plan:
            nvml.fails = fails
            for name, value in values.items():
                setattr(card, name, value)
            if reloaded:
                nvml.sessions = 0
            wait = telemetry.step()
            assert 1 <= wait <= 30
            visible_uuid(environment)
            telemetry.unready()
            generate_latest(registry)
        nvml.fails = {}
        card.__dict__.update(FakeCard(A, slices=(M1, M2)).__dict__)
        telemetry.step()
        telemetry.step()  # the first may still have had the session that is gone
        # Only where CUDA itself sees a device does anything come back.
        up = "kiln_gpu_card_nvml_up 1.0" in generate_latest(registry).decode()
        assert up == (visible not in ("", f"7,{M2}"))
        assert telemetry.unready() is None
