"""The process around the answers."""

import asyncio

import pytest

from infra.scaler.service import ScalerService
from infra.scaler.settings import ScalerSettings
from schemas.catalogue import ConfigCatalogue
from schemas.errors import CommandError
from schemas.settings import read_settings
from streams.kafka.settings import KafkaSettings
from tests.kafka import small_catalogue


def service(**settings: object) -> ScalerService:
    made = ScalerSettings.model_validate(settings)
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1")
    return ScalerService(made, kafka, small_catalogue("kiln"), ConfigCatalogue([]))


def test_it_is_not_ready_before_it_knows_its_pools() -> None:
    made = service()
    assert made.not_ready() == "the scaler is starting"
    made._starting = None
    assert made.not_ready() == "nothing is known of pool 'a'; look at Kafka"


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("KILN_SCALER_TLS_CERTFILE", "/a", "KILN_SCALER_: tls_certfile and tls_keyfile go together; give both"),
        ("KILN_SCALER_LOOK_SECONDS", "40", "KILN_SCALER_: age_seconds_max is below two looks; raise it"),
        ("KILN_SCALER_PORT", "70000", "KILN_SCALER_PORT: "),
    ],
)
def test_a_setting_that_is_refused_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(CommandError) as refused:
        read_settings(ScalerSettings)
    assert str(refused.value).startswith(sentence)


async def test_a_port_that_is_taken_is_a_sentence() -> None:
    import grpc

    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    with pytest.raises(CommandError, match=f"KEDA cannot be answered on 127.0.0.1:{port}"):
        service(port=port)._listen(server)
    with pytest.raises(CommandError, match="look at KILN_SCALER_HOST, _PORT, _TLS_CERTFILE and _TLS_KEYFILE"):
        service(port=0, tls_certfile="/nowhere", tls_keyfile="/nowhere")._listen(server)
    taken.close()
