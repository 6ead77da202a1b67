"""A verdict that cannot be guilty is a defect: each thing that may go wrong is put into a sound run, and is named."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from schemas.result import Artifact, ConfigUsed, Environment, Failed, GenerationResult, Succeeded
from tests.fault.gpu.cases import Case, make_cases
from tests.fault.gpu.faults import Fault, Line
from tests.fault.gpu.requests import BUCKET
from tests.fault.gpu.verdict import Evidence, count, flaws

CASE = Case("sticky", [Fault(kind="sticky", job="job-1")], {1: "engine_death"}, restarts=(3, 3))
JOBS = [f"job-{n}" for n in range(3)]
WANTED = {(n, bucket): f"{n}-{bucket}" for n in range(3) for bucket in (BUCKET, 2)}
_RUN = {
    "tenant": "blue",
    "request_id": "r",
    "finished_at": datetime(2026, 1, 1, tzinfo=UTC),
    "config": ConfigUsed(name="c", version=1, hash="h", model_digest="d"),
}


def succeeded(n: int, bucket: int = BUCKET, sha256: str | None = None, attempt: int = 1) -> Succeeded:
    digest = sha256 or WANTED[n, bucket]
    artifact = Artifact(uri="u", sha256=digest, bytes=1, content_type="image/png", width=8, height=8, seed=n)
    return Succeeded.model_validate(
        {
            **_RUN, "job_id": f"job-{n}", "artifacts": (artifact,), "seed": n, "batch_size": 1, "bucket": bucket,
            "environment": Environment(device="cpu"), "peak_vram_bytes": 1, "attempt": attempt,
        }
    )  # fmt: skip


def failed(n: int, code: str, attempt: int = 1) -> Failed:
    return Failed.model_validate({**_RUN, "job_id": f"job-{n}", "code": code, "message": "m", "attempt": attempt})


def fault(at: float, *keys: str) -> Line:
    return Line("fault", 1, at, 0, keys or ("job-1/0",))


def sound() -> Evidence:
    """Three engines were killed by job-1, and a fourth made the rest."""
    starts = [Line("start", n, at=10.0 * n) for n in range(4)]
    works = [Line("work", 1, 4, keys=("job-0/0", "job-1/0")), *(Line("work", 9, at=at) for at in (14, 24))]
    works.append(Line("work", 9, 34, keys=("job-2/0",)))
    faults = [fault(5, "job-0/0", "job-1/0"), fault(15), fault(25)]
    results: list[GenerationResult] = [succeeded(0, attempt=2), failed(1, "engine_death", 4), succeeded(2)]
    return Evidence(JOBS, results, [*starts, *works, *faults], starts_due=1, lag=0, statuses={"first": 0})


def test_a_sound_run_has_no_flaw() -> None:
    assert list(flaws(CASE, sound(), WANTED)) == []
    counted = count(CASE, sound(), WANTED)
    assert (counted.equal, counted.due, counted.restarts, counted.attempts_max) == (2, 2, 3, 4)
    assert counted.recovery_seconds == 9


Spoil = Callable[[Evidence], Evidence]
SPOILT: dict[str, Spoil] = {
    "no result of": lambda e: replace(e, results=e.results[:2]),
    "more than one result": lambda e: replace(e, results=[*e.results, succeeded(0)]),
    "lag 2": lambda e: replace(e, lag=2),
    "request 1 had to fail with engine_death, and is succeeded": lambda e: replace(
        e, results=[succeeded(0), succeeded(1), succeeded(2)]
    ),
    "request 1 had to fail with engine_death, and is failed with non_finite": lambda e: replace(
        e, results=[succeeded(0), failed(1, "non_finite"), succeeded(2)]
    ),
    "request 2 is innocent": lambda e: replace(e, results=[*e.results[:2], failed(2, "engine_death")]),
    "other bytes": lambda e: replace(e, results=[*e.results[:2], succeeded(2, sha256="0-4")]),
    "memory never ran out": lambda e: replace(e, results=[*e.results[:2], succeeded(2, bucket=2)]),
    "a bucket of 3, which there is not": lambda e: replace(
        e, results=[*e.results[:2], succeeded(2).model_copy(update={"bucket": 3})]
    ),
    "not the stored one": lambda e: replace(e, unlike_store=["job-0"]),
    "never struck": lambda e: replace(e, log=[line for line in e.log if line.event != "fault"]),
    "killed 4 engines": lambda e: replace(e, log=[*e.log, fault(35)]),
    "beside others": lambda e: replace(e, log=[*e.log[:-1], fault(25, "job-1/0", "job-2/0")]),
    "4 engine restarts": lambda e: replace(e, log=[*e.log, Line("start", 9, 40)]),
    "from a death to the next work": lambda e: replace(e, recovery_seconds_max=5),
    "ended with 3": lambda e: replace(e, statuses={"first": 3}),
    "charged with a death": lambda e: replace(e, results=[*e.results[:2], succeeded(2, attempt=2)]),
    "left behind": lambda e: replace(e, leftovers=["123 python"]),
}


@pytest.mark.parametrize("sentence", SPOILT)
def test_each_thing_that_goes_wrong_is_named(sentence: str) -> None:
    found = list(flaws(CASE, SPOILT[sentence](sound()), WANTED))
    assert any(sentence in flaw for flaw in found), found


def test_who_gives_up_must_say_so() -> None:
    case = replace(CASE, exit_status=3)
    assert list(flaws(case, replace(sound(), statuses={"first": 3, "second": 0}), WANTED)) == []
    assert list(flaws(case, replace(sound(), statuses={"first": 0, "second": 3}), WANTED)) == [
        "the first consumer ended with 0, not with 3",
        "the second consumer ended with 3, not with 0",
    ]


def test_a_lower_bucket_is_right_where_memory_ran_out() -> None:
    case = Case("memory", [Fault(kind="out_of_memory", job="job-1")], {1: "out_of_memory"})
    results: list[GenerationResult] = [succeeded(0, bucket=2), failed(1, "out_of_memory"), succeeded(2)]
    evidence = Evidence(JOBS, results, [Line("start", 1, 0), fault(1)], starts_due=1, lag=0)
    assert list(flaws(case, evidence, WANTED)) == []
    counted = count(case, evidence, WANTED)
    assert (counted.equal, counted.equal_lower) == (1, 1)


def test_every_case_has_a_name_of_its_own_and_its_guilty_among_the_requests() -> None:
    for size in (20, 100):
        cases = make_cases(size)
        assert len({case.name for case in cases}) == len(cases)
        assert all(0 <= n < size for case in cases for n in case.codes)
