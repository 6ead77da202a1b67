"""Settings that contradict each other are refused at the start."""

from typing import Any

import pytest
from pydantic import ValidationError

from streams.gate.settings import GateSettings
from streams.metric import SEEN_SECONDS
from streams.settings import AdmissionServiceSettings


def test_every_setting_is_bounded_or_described() -> None:
    for name, field in AdmissionServiceSettings.model_fields.items():
        assert field.description or field.metadata, name


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILN_ADMISSION_SERVICE_INTAKE", "plain")
    monkeypatch.setenv("KILN_ADMISSION_SERVICE_BATCH_MAX", "17")
    settings = AdmissionServiceSettings()
    assert (settings.intake, settings.batch_max) == ("plain", 17)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"reopen_backoff_seconds_min": 40}, "reopen_backoff_seconds_min is above"),
        ({"revoke_grace_seconds": 30}, "revoke_grace_seconds must be below"),
        ({"intake": "other"}, "faust"),
        ({"batch_max": 0}, "greater than or equal to 1"),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        AdmissionServiceSettings(**given)


@pytest.mark.parametrize("made", [AdmissionServiceSettings, GateSettings])
def test_what_is_seen_is_looked_at_twice_before_it_leaves(made: type[AdmissionServiceSettings | GateSettings]) -> None:
    """Else a gauge would come and go while all is well."""
    assert made(refresh_seconds=SEEN_SECONDS / 2).refresh_seconds == SEEN_SECONDS / 2
    with pytest.raises(ValidationError, match="refresh_seconds"):
        made(refresh_seconds=SEEN_SECONDS)
