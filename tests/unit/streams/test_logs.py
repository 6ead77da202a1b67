"""What a service writes to stderr, as another process sees it."""

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from streams.logs import ALWAYS, FIELDS

DOCS = Path("docs/logs-and-traces.md")
BEGIN = "import logging, threading, warnings; from streams.logs import log_to_stderr; log_to_stderr(verbose={});"


def written(script: str, *, verbose: bool = False, form: str = "text") -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"{BEGIN.format(verbose)}\n{script}"], capture_output=True, text=True, check=False,
        env=os.environ | {"KILN_LOG_FORMAT": form},
    )  # fmt: skip
    assert done.stdout == ""
    return done.stderr


def test_a_line_is_masked() -> None:
    line = written("logging.getLogger('streams.x').info('%s of %s', 'password=hunter2', 'a@b.example')")
    assert line.endswith("INFO streams.x: password=[secret] of [e-mail]\n")


def test_what_another_handler_wrote_of_an_error_is_not_written_again() -> None:
    hidden = "what = 'password=' + 'hunter2'\n"
    text = written(
        hidden + "from logging import Formatter, LogRecord\n"
        "try: raise ValueError(what)\n"
        "except ValueError as error:\n"
        "    record = LogRecord('signature', 40, '', 1, 'no %s', ('key',), (ValueError, error, error.__traceback__))\n"
        "Formatter().format(record)\n"
        "assert 'hunter2' in record.exc_text\n"
        "logging.getLogger().handle(record)"
    )
    assert "ERROR signature: no key\n" in text
    assert "ValueError: password=[secret]" in text
    assert "=hunter2" not in text


def test_a_traceback_is_masked() -> None:
    text = written(
        "try: raise ValueError('password=hunter2')\n"
        "except ValueError: logging.getLogger('aiokafka').critical('Failed', exc_info=True)"
    )
    assert "ValueError: password=[secret]" in text
    assert "hunter2" not in text.replace("raise ValueError('password=hunter2')", "")


def test_what_nobody_expected_is_masked_too() -> None:
    hidden = "what = 'password=' + 'hunter2'\ndef fail(): raise RuntimeError(what)\n"
    for script in ("fail()", "one = threading.Thread(target=fail); one.start(); one.join()"):
        text = written(hidden + script)
        assert "RuntimeError: password=[secret]" in text
        assert "=hunter2" not in text


def test_a_warning_is_masked_too() -> None:
    assert "[secret]" in written("warnings.warn('password=' + 'hunter2')")


def test_our_own_lines_and_the_libraries_where_they_matter() -> None:
    say = "for name in ('streams.a', 'gpu_consumer.b', 'faust', 'aiokafka'): logging.getLogger(name).{}('here')"
    assert [line.split()[3] for line in written(say.format("info")).splitlines()] == ["streams.a:", "gpu_consumer.b:"]
    assert len(written(say.format("warning")).splitlines()) == 3
    assert len(written(say.format("info"), verbose=True).splitlines()) == 4


def lines(script: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written(script, form="json").splitlines()]


def test_a_line_of_json_is_one_object_masked_as_text_is() -> None:
    (line,) = lines("logging.getLogger('streams.x').info('%s of\\n%s', 'password=hunter2', 'a@b.example')")
    assert list(line) == [field.name for field in ALWAYS]
    assert line | {"time": ""} == {
        "time": "",
        "level": "INFO",
        "logger": "streams.x",
        "message": "password=[secret] of\n[e-mail]",
    }
    assert datetime.fromisoformat(line["time"]).tzinfo is not None


def test_what_is_said_of_a_job_stands_in_members_of_its_own_and_nothing_else_does() -> None:
    (line,) = lines(
        "about = {'job_id': 'j', 'request_id': 'a@b.example', 'memory': {'free': 6}, 'prompt': 'a red star'}\n"
        "logging.getLogger('gpu_consumer.x').warning('job %s failed', 'j', extra=about)"
    )
    said = {name: value for name, value in line.items() if name not in {field.name for field in ALWAYS}}
    assert said == {"job_id": "j", "request_id": "[e-mail]", "memory": {"free": 6}}


def test_a_traceback_is_a_member_and_masked() -> None:
    hidden = "what = 'password=' + 'hunter2'\ndef fail(): raise RuntimeError(what)\n"
    for script in ("fail()", "one = threading.Thread(target=fail); one.start(); one.join()"):
        (line,) = lines(hidden + script)
        assert line["level"] == "CRITICAL"
        assert "RuntimeError: password=[secret]" in line["exception"]
        assert "hunter2" not in line["exception"].replace("'hunter2'", "")


def test_another_form_is_refused_by_name() -> None:
    assert "KILN_LOG_FORMAT" in written("", form="xml")


def test_each_member_is_documented() -> None:
    text = DOCS.read_text()
    for field in FIELDS:
        assert f"| `{field.name}` | {field.kind} | {field.meaning} |" in text
