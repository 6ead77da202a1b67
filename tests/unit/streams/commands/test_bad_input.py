"""What is wrong at the command line is said in one sentence, and the exit status tells what kind of wrong it is."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kiln import Kiln


class Said(NamedTuple):
    code: int | None
    lines: list[str]


Run = Callable[..., Said]


@pytest.fixture
def kiln(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command in this process. The broker that the environment names does not exist."""
    monkeypatch.setenv("KILN_HOME", str(tmp_path))
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")

    def run(*arguments: str) -> Said:
        done = Kiln({}).inside(*arguments)
        return Said(done.code, done.err.splitlines())

    return run


COMMANDS = [
    ("submit", "a kiln"), ("quote", "a kiln"), ("route", "a kiln"), ("results",), ("watch",), ("lag",),
    ("cancel", "me/first"), ("cancel", "me/first", "--operator"), ("pause", "pool", "default"),
    ("resume", "tenant", "me"), ("drop", "tenant", "me", "--yes"), ("controls",), ("placement",),
    ("placement", "--undo"), ("usage",), ("cost",), ("tenants", "show"),
    ("tenants", "set", "me", "--per-second", "1", "--burst", "1"), ("tenants", "unset", "me"),
    ("configs", "diff", "sketch"), ("configs", "list", "--live"), ("configs", "publish", "sketch"),
    ("configs", "retire", "sketch@1"),
]  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda each: "-".join(each[:2]))
def test_no_broker_is_one_sentence(
    kiln: Run, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    code, lines = kiln(*arguments)
    assert (code, len(lines)) == (1, 1), lines
    assert "set KAFKA_BOOTSTRAP_SERVERS" in lines[0]
    assert not caplog.records, "nothing is left open"
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS")
    assert kiln(*arguments) == (
        1,
        ["kiln: no Kafka broker is known: run `kiln broker up`, or set KAFKA_BOOTSTRAP_SERVERS"],
    )


@pytest.mark.parametrize("arguments", [("lag",), ("topics", "check"), ("submit", "a kiln")], ids=lambda each: each[0])
@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("KILN_TOPICS_PREFIX", "no prefix!", "kiln: KILN_TOPICS_PREFIX: String should match"),
        ("KILN_TOPICS_REQUESTS_PARTITIONS", "0", "kiln: KILN_TOPICS_REQUESTS_PARTITIONS: Input should be"),
        ("KILN_POOLS", "/", "kiln: / cannot be read"),
        ("KILN_POOLS", "/nonexistent", "kiln: /nonexistent does not exist; create it"),
        ("KAFKA_BOOTSTRAP_SERVERS", "nonsense", "kiln: KAFKA_BOOTSTRAP_SERVERS: String should match"),
    ],
)
def test_a_wrong_setting_is_named(
    kiln: Run, arguments: tuple[str, ...], variable: str, value: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    code, lines = kiln(*arguments)
    assert (code, len(lines)) == (1, 1), lines
    assert lines[0].startswith(sentence)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("submit",), 2, "give a prompt, or requests by --json-lines FILE"),
        (("submit", "a kiln", "--json-lines", "-"), 2, "give a prompt, or requests by --json-lines FILE"),
        (("submit", "a kiln", "--config", "sketch@one"), 2, "'sketch@one' names no version; write NAME@NUMBER"),
        (("submit", "a kiln", "--deadline", "1e30"), 2, "a deadline 1e+30 s from now has no date"),
        (("submit", "a kiln", "--tenant", "no/tenant"), 1, "the request: the field 'tenant' is invalid"),
        (("submit", "a kiln", "--save", "/etc/hostname"), 1, "/etc/hostname is no folder to save in"),
        (
            ("submit", "--json-lines", "/nonexistent"),
            1,
            "/nonexistent cannot be read: No such file or directory; name a file of requests, or - for stdin",
        ),
        (("cost", "--since", "2999-01-01"), 1, "the period has not begun, it is "),
        (("cost", "--since", "2026-11-02", "--until", "2026-11-01"), 1, "the period ends before it begins"),
        (("tenants", "set", "me"), 2, "give --per-second and --burst, or --file"),
        (("tenants", "set", "me", "--per-second", "0", "--burst", "1"), 2, "--per-second: Input should be greater"),
        (("tenants", "set", "me", "--file", "/nonexistent"), 2, "/nonexistent does not exist; name a file with the"),
        (("acls", "--role", "nobody"), 1, "there is no role 'nobody'; there are: "),
        (("admission", "codes", "/nonexistent"), 1, "/nonexistent: No such file or directory; name the page"),
        (("configs", "retire", "sketch"), 2, "'sketch' names no version; write NAME@NUMBER"),
        (("configs", "channel", "sketch"), 2, "'sketch' names no channel; write NAME:CHANNEL"),
        (("configs", "compare", "sketch", "sketch", "--prompts", "/nonexistent"), 2, "/nonexistent cannot be read: No"),
        (("models", "add-shapes", "/etc/hostname"), 1, "/etc/hostname: File exists; name another folder"),
        (("models", "digest", "/nonexistent"), 1, "there is no model in /nonexistent; put its folder there"),
        (("verify", "nothing"), 2, "'nothing' is no file, and no TENANT/REQUEST-ID"),
        (("verify", "me/first"), 2, "the results topic cannot be read: Unable to bootstrap from [127.0.0.1:1]; give"),
        (
            ("profile", "--url", "http://127.0.0.1:1"),
            1,
            "http://127.0.0.1:1 does not answer (Connection refused); give",
        ),
        (("plan", "/nonexistent"), 1, "/nonexistent cannot be read"),
        (("configs", "show", "sketch@0"), 2, "'sketch@0': the field 'version' is invalid"),
        (("configs", "show", "nothing"), 1, "there is no config 'nothing'; known are"),
        (("configs", "list", "--configs", "/nonexistent"), 1, "no config files in /nonexistent; add one"),
        (("cancel", "first"), 2, "'first' names a tenant and no request; write TENANT/REQUEST_ID"),
        (("cancel", "no tenant/first"), 2, "'no tenant/first' is no TENANT/REQUEST_ID: the field 'tenant' is invalid"),
        (("cancel", "me/first", "--operator", "--own-topic"), 2, "an operator writes to cancels, unsigned"),
        (("pause", "tenant", "no/tenant"), 2, "'no/tenant' can be no tenant"),
        (("pause", "pool", "nowhere"), 1, "there is no pool 'nowhere'; there are: "),
        (("pause", "config", "shapes:stable"), 2, "'shapes:stable' names a channel"),
        (("pause", "config", "shapes@x"), 2, "'shapes@x' names no version"),
        (("pause", "pool", "default", "--for", "soon"), 2, "'soon' is no span; write such as 90s, 10m, 2h or 1d"),
        (("pause", "pool", "default", "--for", "9999999d"), 2, "9999999d from now has no date"),
        (("pause", "pool", "default", "--reason", "x" * 501), 2, "a reason of 501 characters"),
        (("drop", "pool", "nowhere", "--yes"), 1, "there is no pool 'nowhere'; there are: "),
        (("drop", "tenant", "me"), 2, "nobody is there to ask; say --yes"),
        (("schemas", "export", "/etc/hostname"), 1, "/etc/hostname cannot be written"),
        (("schemas", "export", "/nonexistent", "--check"), 1, ""),
        (("infra", "render", "--out", "/etc/hostname"), 1, "/etc/hostname "),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_a_wrong_wish_is_a_sentence(kiln: Run, arguments: tuple[str, ...], code: int, sentence: str) -> None:
    said = kiln(*arguments)
    assert said.code == code, said
    assert said.lines[0].startswith(f"kiln: {sentence}")
    assert not any("Traceback" in line for line in said.lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ("submit", "a kiln", "--images", "0"),
        ("submit", "a kiln", "--priority", "soon"),
        ("submit", "a kiln", "--deadline", "nan"),
        ("submit", "a kiln", "--timeout", "-1"),
        ("results", "--status", "lost"),
        ("results", "--limit", "0"),
        ("lag", "--unknown"),
        ("cancel",),
        ("pause", "planet", "mars"),
        ("drop", "tenant"),
        ("unknown",),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_2(kiln: Run, arguments: tuple[str, ...]) -> None:
    said = kiln(*arguments)
    assert said.code == 2
    assert not any("Traceback" in line for line in said.lines)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (b'{"prompt": "one", "config": {"name": "sketch"}}\n{"prompt": 1}\n', "kiln: line 2: the field"),
        (b"\xff\n", "kiln: line 1: the text is not valid UTF-8"),
        (b"{\n", "kiln: line 1: the body is not JSON"),
    ],
)
def test_a_wrong_line_is_numbered_and_nothing_is_sent(kiln: Run, lines: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(lines)
    code, said = kiln("submit", "--json-lines", str(tmp_path / "lines"))
    assert (code, len(said)) == (1, 1)
    assert said[0].startswith(sentence)


def test_a_line_ends_at_a_line_feed_only(kiln: Run, tmp_path: Path) -> None:
    """A prompt may hold what Python, too, takes for the end of a line."""
    line = '{"prompt": "one\u2028two\x85three", "config": {"name": "sketch"}}\r\n'
    (tmp_path / "lines").write_text(line, encoding="utf-8", newline="")
    _, said = kiln("submit", "--json-lines", str(tmp_path / "lines"))
    assert "Kafka at 127.0.0.1:1 does not answer" in said[0]


def test_a_lock_that_is_none_is_a_sentence(kiln: Run, tmp_path: Path) -> None:
    for file in Path("infra/configs").glob("*.yaml"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "configs.lock").write_text("[1]")
    for command in ("check", "lock"):
        code, said = kiln("configs", command, "--configs", str(tmp_path))
        assert (code, len(said)) == (1, 1)
        assert "cannot be read as a lock" in said[0]


def test_what_looks_like_markup_is_printed_as_it_is(kiln: Run) -> None:
    assert "'[/b]'" in kiln("configs", "show", "[/b]").lines[0]


def test_a_signing_key_that_cannot_be_read_is_said_before_anything_is_sent(kiln: Run, tmp_path: Path) -> None:
    code, lines = kiln("submit", "a kiln", "--sign", str(tmp_path / "2030-01"))
    assert code == 1
    assert "cannot be read: No such file or directory" in lines[0]


def test_a_gate_without_a_topic_to_read_says_so(kiln: Run) -> None:
    assert kiln("gate") == (
        1,
        ["kiln: no tenant has a topic of its own; give one `topic: true` in tenants.yaml"],
    )
