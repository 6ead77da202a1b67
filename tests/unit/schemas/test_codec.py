import gc
import json
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from schemas import codec
from schemas.codec import canonical, decode_object, encode, sha256_hex, write
from schemas.errors import Undecodable

DEEP = 100_000


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        # case ADM-10
        (b'{"a":NaN}', "NaN is not a JSON number"),
        (b'{"a":Infinity}', "Infinity is not a JSON number"),
        (b'{"a":[-Infinity]}', "-Infinity is not a JSON number"),
        (b'{"a":1e999}', "1e999 is out of range"),
        (b'{"a":-1e999}', "-1e999 is out of range"),
        (b'{"a":1,"a":1}', "'a' stands twice"),
        (b'{"b":{"a":1,"a":2}}', "'a' stands twice"),
        # case ADM-08
        (b'{"a":' + b"9" * 5000 + b"}", "5000 digits"),
        (b"[" * DEEP, "nested too deeply"),
        (b'{"a":' * DEEP, "nested too deeply"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested too deeply; send at most 64 levels"),
        (b'{"a":"\xff"}', "UTF-8"),
        (b'{"a":"\\ud800"}', "surrogates"),
        (b'{"\\udfff":1}', "surrogates"),
        ('{"a":1}'.encode("utf-16"), "UTF-8"),
        (b'\xef\xbb\xbf{"a":1}', "not JSON"),
        (b"", "not JSON"),
        (b'{"a":1', "not JSON"),
        (b'{"a":1} {}', "not JSON"),
        (b"{'a':1}", "not JSON"),
        (b'{"a":"\n"}', "not JSON"),
        (b"[1]", "an array"),
        (b'"a"', "a string"),
        (b"1", "a number"),
        (b"true", "a boolean"),
        (b"null", "null"),
    ],
)
def test_what_is_not_strict_json_is_refused_in_a_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(Undecodable, match=sentence) as refused:
        decode_object(data)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": None},
        {"a": [1, 2.5, "x", True, {"b": []}]},
        {"emoji": "🏺"},
        {"": 0},
        json.loads('{"a":' * 64 + "1" + "}" * 64),
        {"big": 10**600},
    ],
)
def test_strict_json_is_read_as_written(value: dict[str, object]) -> None:
    for ascii_only in (True, False):
        assert decode_object(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


def test_a_key_that_stands_twice_after_many_others_is_found_without_comparing_each_with_each() -> None:
    """In the largest record a search that looks each key up among all would hold its process for minutes."""
    members = ",".join(f'"{number:x}":1' for number in range(100_000))
    began = time.process_time()
    with pytest.raises(Undecodable, match="'last' stands twice"):
        decode_object(f'{{{members},"last":1,"last":2}}'.encode())
    assert time.process_time() - began < 10, "it takes a hundredth of that"


def test_escaped_pairs_of_surrogates_are_one_character() -> None:
    assert decode_object(b'{"a":"\\ud83c\\udffa"}') == {"a": "🏺"}


def test_canonical_is_one_spelling() -> None:
    assert canonical({"b": 1, "a": {"d": "é", "c": [1, None]}}) == '{"a":{"c":[1,null],"d":"é"},"b":1}'.encode()
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical(float("nan"))


def test_canonical_reads_back_as_the_same_value() -> None:
    value = {"z": [0.1, 1e-7, 1e22, -0.0], "a": '"\\\u2028\x7f'}
    assert decode_object(canonical(value)) == value


class _Event(BaseModel):
    b: float
    a: str | None = None


def test_an_event_leaves_absent_fields_out() -> None:
    assert encode(_Event(b=1.5)) == b'{"b":1.5}'
    assert encode(_Event(b=1.5, a="x")) == b'{"b":1.5,"a":"x"}'


@pytest.mark.parametrize("text", ["null", '"null"', "", "\u2028\x7f\\", "é\U0001f525", "\0"])
def test_an_event_reads_back_whatever_its_texts_are(text: str) -> None:
    assert decode_object(encode(_Event(b=0.1, a=text))) == {"b": 0.1, "a": text}


@pytest.mark.parametrize("text", ["Infinity", "NaN", '"-Infinity"', "", "\u2028\x7f\\", "é\U0001f525", "\0"])
def test_a_value_reads_back_whatever_its_texts_are(text: str) -> None:
    value = {"b": [0.1, -0.0, 1e22, 1e-7, 2**53, True, None], text: {"a": text}}
    assert decode_object(write(value).encode()) == value


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_an_event_never_says_nan(number: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        encode(_Event(b=number))
    with pytest.raises(ValueError, match="JSON compliant"):
        write({"a": [number]})
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical(number)


def test_sha256_is_lower_case_hex() -> None:
    assert sha256_hex(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


_NAMES = st.sampled_from(["a", "b", "request_id", "prompt", "é", ":", ""])
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["a: b", '"a":1', "[", "{", "\ud83d\ude00", "\\u00e9", "\x7f"])
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.dictionaries(_NAMES, inner, max_size=4) | st.lists(inner, max_size=2), max_leaves=8
)
_FLAWS = st.sampled_from(
    [
        b'"a":1,', b'"\\u0061":1,', b'"a" :', b":", b'"', b"{", b"}", b"[", b"-0", b"01", b"1e999", b"NaN", b"\xff",
        b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\ud800", b"\\u0000", b"\x00", b"\x1f", b" ", b"\n", b"9" * 700, b"1.0",
        b"9223372036854775808", b'{"a":' * 70,
    ]
)  # fmt: skip


@settings(max_examples=300)
@given(st.dictionaries(_NAMES, _VALUES, max_size=6), st.booleans(), _FLAWS, st.floats(0, 1), st.integers(0, 3))
def test_the_quick_reader_reads_what_the_strict_one_reads_or_nothing(
    body: dict[str, object], ascii_only: bool, flaw: bytes, where: float, flaws: int
) -> None:
    data = json.dumps(body, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    for _ in range(flaws):
        at = int(where * len(data))
        data = data[:at] + flaw + data[at:]
    quick = codec._plain_object(data)
    if quick is not None:
        strict = codec._strict_object(data)
        assert quick == strict
        assert repr(quick) == repr(strict)  # True is no 1


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"\\u0061":1}',
        b'{"a":{"b":1,"b":1}}',
        b'{"a":"\\ud800"}',
        b'{"a":1e999}',
        b'{"a":' + b"9" * 700 + b"}",
        b'{"a":' * 65 + b"1" + b"}" * 65,
        b'{"a":{' * 40 + b'"b":1' + b"}" * 80,
    ],
)
def test_the_quick_reader_leaves_the_doubtful_to_the_strict_one(data: bytes) -> None:
    assert codec._plain_object(data) is None


def test_the_quick_reader_reads_a_usual_request() -> None:
    body = {"request_id": "a", "tenant": "b", "prompt": "é", "config": {"name": "c", "version": 1}, "seed": 2**53 - 1}
    assert codec._plain_object(json.dumps(body).encode()) == body


def test_nothing_is_kept_of_texts_that_were_read() -> None:
    """The reader of pydantic would remember some thousands of them."""
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(4000):
            decode_object(b'{"prompt":"the picture of a cat number %d"}' % number)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000
