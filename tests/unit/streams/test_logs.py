"""What a service writes to stderr, as another process sees it."""

import subprocess
import sys

BEGIN = "import logging, threading, warnings; from streams.logs import log_to_stderr; log_to_stderr(verbose={});"


def written(script: str, *, verbose: bool = False) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"{BEGIN.format(verbose)}\n{script}"], capture_output=True, text=True, check=False
    )
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
