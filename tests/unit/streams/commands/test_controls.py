"""What control says, as a person reads it; and that a drop asks first."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from pydantic import BaseModel

from schemas.codec import encode
from schemas.control import (
    Channel,
    Drop,
    Pause,
    Placement,
    PublishConfig,
    Retire,
    SetQuota,
    Share,
    Subject,
    control_key,
)
from schemas.errors import CommandError
from schemas.tenants import Quota
from streams.commands import drop
from streams.commands.controls import Row, rows
from streams.control import Controls
from tests.unit.admission.scene import config_file

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


def said(*records: tuple[bytes, BaseModel]) -> list[Row]:
    controls = Controls()
    for offset, (key, value) in enumerate(records):
        at_ms = int(NOW.timestamp() * 1000)
        record: Any = SimpleNamespace(key=key, value=encode(value), timestamp=at_ms, offset=offset)
        assert controls.fold(record) is None
    return list(rows(controls, NOW))


def test_every_word_is_a_row() -> None:
    assert said(
        (control_key("pause", "pool", "h200"), Pause(until=NOW + timedelta(minutes=10), reason="a new driver")),
        (control_key("pause", "tenant", "blue"), Pause()),
        (control_key("pause", "config", "sketch@2"), Pause(until=NOW)),
        (control_key("drop", "tenant", "blue"), Drop(reason="a leaked key")),
        (control_key("channel", "sketch", "stable"), Channel.model_validate({"versions": {1: 95, 2: 5}})),
        (control_key("retire", "sketch", "1"), Retire(reason="another model")),
        (control_key("config", "sketch"), PublishConfig(file=config_file("sketch"), reason="fewer steps")),
        (control_key("tenant", "blue"), SetQuota(quota=Quota(per_second=2, burst=5), reason="a launch")),
        (
            control_key("placement", "h200"),
            Placement(term=3, partitions=8, models={"m": (Share(partition=0, weight=1),)}),
        ),
    ) == [
        ("pause", "pool/h200", "until 2030-01-31T12:10:00Z", "a new driver"),
        ("pause", "tenant/blue", "until it is resumed", ""),
        ("pause", "config/sketch@2", "until 2030-01-31T12:00:00Z, which is over", ""),
        ("drop", "tenant/blue", "what was sent until 2030-01-31T12:00:00Z", "a leaked key"),
        ("channel", "sketch:stable", "1=95, 2=5", ""),
        ("retire", "sketch@1", "refused", "another model"),
        ("config", "sketch", "versions 1, 2", "fewer steps"),
        ("tenant", "blue", "2 a second, 5 at once", "a launch"),
        ("placement", "h200", "1 model, term 3", ""),
    ]


def test_a_drop_asks_whoever_is_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []
    monkeypatch.setattr(typer, "confirm", lambda question, abort: asked.append(question) if abort else None)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    drop.confirm(Subject("tenant", "blue"), yes=False)
    assert asked == ["Drop it?"]
    drop.confirm(Subject("tenant", "blue"), yes=True)
    assert len(asked) == 1
    assert capsys.readouterr().out.count("tenant 'blue': every request of this tenant") == 2
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False))
    with pytest.raises(CommandError, match="--yes"):
        drop.confirm(Subject("tenant", "blue"), yes=False)
