"""Settings refuse what contradicts itself, and find the development broker."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from streams.kafka.errors import ConnectionSettingsError
from streams.kafka.settings import KafkaSettings


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setenv("KILN_HOME", str(tmp_path / "home"))


def note_broker(tmp_path: Path, text: str) -> None:
    place = tmp_path / "home" / "broker" / "bootstrap"
    place.parent.mkdir(parents=True)
    place.write_text(text)


def test_without_a_broker_the_cure_is_named() -> None:
    with pytest.raises(ConnectionSettingsError, match="kiln broker up"):
        KafkaSettings.load()


def test_the_development_broker_is_found(tmp_path: Path) -> None:
    note_broker(tmp_path, "127.0.0.1:9,127.0.0.1:10\n")
    kafka = KafkaSettings.load(session_timeout_ms=3_000, heartbeat_interval_ms=500)
    assert kafka.client_options()["bootstrap_servers"] == ["127.0.0.1:9", "127.0.0.1:10"]
    assert kafka.session_timeout_ms == 3_000


def test_the_environment_goes_before_the_development_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note_broker(tmp_path, "127.0.0.1:9")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "kafka:9092")
    assert KafkaSettings.load().bootstrap_servers == "kafka:9092"
    assert KafkaSettings.load(bootstrap_servers="other:1").bootstrap_servers == "other:1"


@pytest.mark.parametrize(
    ("given", "cure"),
    [
        ({"bootstrap_servers": "kafka"}, "KAFKA_BOOTSTRAP_SERVERS: .* .host:port of one"),
        ({"heartbeat_interval_ms": 4_000}, "heartbeat_interval_ms is above a third"),
        ({"session_timeout_ms": 300_000}, "max_poll_interval_ms is not above"),
        ({"transaction_deadline_ms": 10_000}, "transaction_deadline_ms is not below"),
        ({"backoff_first_ms": 40_000}, "backoff_first_ms is above"),
        ({"fetch_max_bytes": 1 << 20}, "fetch_max_bytes is below"),
        ({"security_protocol": "SASL_SSL"}, "give both"),
        ({"sasl_plain_username": "me", "sasl_plain_password": "hush"}, "would not be used"),
        ({"security_protocol": "SSL", "ssl_certfile": Path("cert")}, "go together"),
        ({"ssl_cafile": Path("ca")}, "would not be used"),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, Any], cure: str) -> None:
    with pytest.raises(ConnectionSettingsError, match=cure) as refusal:
        KafkaSettings.load(**{"bootstrap_servers": "kafka:9092", **given})
    assert "hush" not in str(refusal.value)


def test_credentials_reach_the_client_and_no_log() -> None:
    kafka = KafkaSettings(
        bootstrap_servers="kafka:9092",
        security_protocol="SASL_SSL",
        sasl_plain_username="me",
        sasl_plain_password="hush",
    )
    options = kafka.client_options()
    assert (options["sasl_mechanism"], options["sasl_plain_password"]) == ("SCRAM-SHA-512", "hush")
    assert "hush" not in repr(kafka)
    context = options["ssl_context"]
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    kafka = KafkaSettings(bootstrap_servers="kafka:9092", security_protocol="SSL", ssl_cafile=tmp_path / "none.pem")
    with pytest.raises(ConnectionSettingsError, match="KAFKA_SSL_CAFILE"):
        kafka.client_options()
