import pytest

from schemas.codec import encode
from schemas.control import Drop, Pause, Placement, SetQuota, Share, Subject, control_key, decode_control
from schemas.errors import Undecodable
from schemas.tenants import Quota


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (control_key("pause", "pool", "default"), Pause(reason="the card is hot")),
        (control_key("drop", "config", "sketch@2"), Drop()),
        (control_key("tenant", "alice"), SetQuota(quota=Quota(per_second=1, burst=5))),
        (
            control_key("placement", "default"),
            Placement(term=3, partitions=8, models={"m": (Share(partition=1, weight=0.5),)}),
        ),
    ],
)
def test_what_was_said_is_read_again(key: bytes, said: Pause) -> None:
    assert decode_control(key, encode(said)) == said


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        (b"weather/here", b"{}", "'weather' is no subject"),
        (None, b"{}", "is no subject"),
        (b"\xff/a", b"{}", "is no subject"),
        (b"placement/a", b'{"term": -1, "models": {}}', "term"),
        (
            b"placement/a",
            b'{"term": 1, "partitions": 2, "models": {"m": [{"partition": 9, "weight": 1}]}}',
            "a share in partition 9 of 2",
        ),
        (
            b"placement/a",
            b'{"term": 1, "partitions": 2, "models": {"m": [{"partition": 1, "weight": 1e308}]}}',
            "weight",
        ),
        (b"pause/pool/a", b'{"schema_version": 2}', "schema_version"),
        (b"pause/pool/a", b"nothing", "JSON"),
    ],
)
def test_what_is_of_a_later_release_is_not_guessed_at(key: bytes | None, value: bytes, sentence: str) -> None:
    with pytest.raises(Undecodable, match=sentence):
        decode_control(key, value)


def test_a_subject_reads_as_its_key() -> None:
    assert str(Subject("config", "sketch@2")) == "config/sketch@2"
