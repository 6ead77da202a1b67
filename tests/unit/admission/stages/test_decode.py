import json

import pytest

from admission.draft import Refusal
from admission.stages.decode import Malformed, Named, decode
from schemas.codec import canonical, sha256_hex


def test_the_digest_is_of_the_canonical_form() -> None:
    body = {"tenant": "alice", "request_id": "é", "b": [1, {"d": None, "c": "\n"}]}
    spelled = [
        json.dumps(body).encode(),
        json.dumps(body, ensure_ascii=False, indent=1).encode(),
        b' {"request_id":"\\u00e9","tenant":"\\u0061lice","b":[1,{"c":"\\n","d":null}]}\n',
    ]
    digests = {decode(each).digest for each in spelled}  # type: ignore[union-attr]
    assert digests == {sha256_hex(canonical(body))}


def test_values_that_differ_only_in_type_differ() -> None:
    digests = [
        decode(f'{{"tenant":"a","request_id":"r","seed":{seed}}}'.encode()).digest  # type: ignore[union-attr]
        for seed in ("1", "1.0", '"1"', "true", "null")
    ]
    assert len(set(digests)) == 5


@pytest.mark.parametrize(
    "flaw",
    [
        b'"seed":NaN',
        b'"seed":-Infinity',
        b'"seed":1e999',
        b'"seed":1,"seed":2',
        b'"seed":' + b"9" * 5000,
        b'"prompt":"\\ud800"',
        b'"metadata":{"tenant":"b","tenant":"c"}',
        b'"metadata":{"request_id":"x"},"a":1,"a":1',
    ],
)
def test_a_name_beside_a_flaw_is_found_and_digested_as_sent(flaw: bytes) -> None:
    value = b'{"tenant":"alice",' + flaw + b',"request_id":"r1"}'
    named = decode(value)
    assert isinstance(named, Named)
    assert (named.tenant, named.request_id) == ("alice", "r1")
    assert isinstance(named.body, Refusal)
    assert named.body.code == "invalid_request"
    assert named.digest == sha256_hex(value)


@pytest.mark.parametrize(
    "value",
    [
        b'{"tenant":"alice","request_id":"r1","request_id":"r1"}',
        b'{"tenant":"alice","tenant":"alice","request_id":"r1"}',
        b'{"tenant":"alice","request_id":5,"seed":NaN}',
        b'{"tenant":"alice","request_id":NaN}',
        b'{"tenant":NaN,"request_id":"r1"}',
        b'{"tenant":"alice","seed":NaN}',
        b'{"a":{"tenant":"alice","request_id":"r1"},"seed":NaN}',
        b'[{"tenant":"alice","request_id":"r1","seed":NaN}]',
        b'{"tenant":"alice","request_id":"r1","seed":NaN',
        b'{"tenant":"alice","request_id":"r1","seed":NaN} {}',
        b'\xef\xbb\xbf{"tenant":"alice","request_id":"r1"}',
        b'{"tenant":"alice","request_id":"r1","prompt":"\xff"}',
        b'{"tenant":"alice","request_id":"\\udfff","seed":NaN}',
    ],
)
def test_a_name_that_two_readers_could_read_differently_is_none(value: bytes) -> None:
    assert isinstance(decode(value), Malformed)


def test_a_tombstone_says_what_to_send_instead() -> None:  # case FST-04
    malformed = decode(None)
    assert isinstance(malformed, Malformed)
    assert "cancel" in malformed.message
