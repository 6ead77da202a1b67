"""Results from files and stdin."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_consumer.verify.sources import results_of, wishes_of
from gpu_consumer.verify.wish import Wish
from schemas.codec import encode
from schemas.errors import CommandError
from schemas.result import Cancelled
from tests.unit.gpu_consumer.verify.test_wish import result

ONE, TWO = result(), result(request_id="r2", job_id="k")


def test_one_event_in_any_layout_or_one_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "result.json"
    file.write_text(ONE.model_dump_json(indent=2))
    assert results_of(str(file)) == [ONE]
    file.write_bytes(encode(ONE) + b"\n" + encode(TWO) + b"\n")
    assert results_of(str(file)) == [ONE, TWO]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(encode(TWO))))
    assert results_of("-") == [TWO]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"{}", "holds no result event"),
        (b"no json", "holds no result event"),
        (
            encode(
                Cancelled(
                    tenant="blue", request_id="r", job_id="j", finished_at=ONE.finished_at, message="as was asked"
                )
            ),
            "blue/r ended as cancelled: there is no picture to verify",
        ),
    ],
)
def test_no_result(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(data)
    with pytest.raises(CommandError, match=words) as raised:
        results_of(str(file))
    assert raised.value.code == 2


@pytest.mark.parametrize("name", ["a" * 300, "/proc/self/mem"])
def test_a_file_that_cannot_be_read_is_one_sentence(name: str) -> None:
    with pytest.raises(CommandError, match="cannot be read") as raised:
        results_of(name)
    assert raised.value.code == 2


def test_no_file_and_no_name() -> None:
    with pytest.raises(CommandError, match="is no file, and no TENANT/REQUEST-ID"):
        results_of("result.json")


def test_one_prompt_for_all_and_a_file_of_requests(tmp_path: Path) -> None:
    assert wishes_of([ONE, TWO], None, Wish("a cat", "")) == {"j": Wish("a cat", ""), "k": Wish("a cat", "")}
    file = tmp_path / "requests"
    file.write_text('{"request_id": "r2", "prompt": "two"}\n{"request_id": "r1", "prompt": "one"}')
    assert wishes_of([ONE, TWO], file, None) == {"j": Wish("one", ""), "k": Wish("two", "")}
    with pytest.raises(CommandError, match="cannot be read"):
        wishes_of([ONE], tmp_path / "none", None)


def test_without_a_broker_it_says_how_to_give_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    with pytest.raises(CommandError, match="give the request by --request FILE, or the prompt by --prompt"):
        wishes_of([ONE], None, None)
    with pytest.raises(CommandError, match="give the result as a file"):
        results_of("blue/r1")
