import gzip
import json

import pytest
import torch

from gpu_consumer.engine.protocol import Profiled
from gpu_consumer.engine.tracer import Tracer


def traced(tracing: Tracer) -> Profiled | None:
    """Of as many steps as it wants."""
    while True:
        tracing.before_step()
        torch.ones(2).add(1)
        if tracing.after_step():
            return tracing.take()


def test_as_many_steps_as_were_asked_for_and_who_asks_meanwhile_gets_the_same() -> None:
    tracing = Tracer()
    assert not tracing.after_step()
    tracing.ask(3)
    tracing.ask(1)
    made = traced(tracing)
    assert made is not None
    assert made.steps == 3
    names = [event.get("name") for event in json.loads(gzip.decompress(made.trace))["traceEvents"]]
    assert names.count("aten::add") == 3
    tracing.before_step()
    assert not tracing.after_step()


@pytest.mark.parametrize("what", ["start", "stop", "export_chrome_trace"])
def test_a_trace_that_fails_harms_nobody_and_the_next_one_is_made(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space is left")

    tracing = Tracer()
    with monkeypatch.context() as patch:
        patch.setattr(torch.profiler.profile, what, full)
        tracing.ask(1)
        tracing.before_step()
        assert tracing.after_step() == (what != "start")
        if what != "start":
            assert tracing.take() is None
    tracing.ask(1)
    made = traced(tracing)
    assert made is not None
    assert made.steps == 1
