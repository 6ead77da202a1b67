"""What a run came to, beside what it had to come to. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from schemas.result import Failed, GenerationResult, Succeeded
from tests.fault.gpu.cases import DEATHS_MAX, Case
from tests.fault.gpu.faults import LETHAL, Fault, Line
from tests.fault.gpu.requests import BUCKET, Digests


@dataclass(frozen=True, slots=True)
class Evidence:
    """`results` as a reader of the topic sees them; the consumers are `first` and `second`."""

    jobs: Sequence[str]
    results: Sequence[GenerationResult]
    log: Sequence[Line]
    starts_due: int  # engines that had to be started without any fault
    lag: int
    statuses: Mapping[str, int | None] = field(default_factory=dict)  # of the consumers that ended
    unlike_store: Sequence[str] = ()  # jobs whose published result is not the stored one
    leftovers: Sequence[str] = ()  # processes and shared memory
    seconds: float = 0.0
    recovery_seconds_max: float = 60.0


@dataclass(frozen=True, slots=True)
class Count:
    """Of the `due` that had to succeed: how many have the bytes of a run without faults, in which bucket."""

    equal: int
    equal_lower: int
    due: int
    restarts: int
    attempts_max: int
    recovery_seconds: float | None


def count(case: Case, evidence: Evidence, wanted: Digests) -> Count:
    number = {job: n for n, job in enumerate(evidence.jobs)}
    equal: Counter[int] = Counter()
    for result in evidence.results:
        if isinstance(result, Succeeded) and _digest(result) == wanted.get((number[result.job_id], result.bucket)):
            equal[result.bucket] += 1
    ran = [result.attempt for result in evidence.results if isinstance(result, Succeeded | Failed)]
    return Count(
        equal=equal[BUCKET],
        equal_lower=equal.total() - equal[BUCKET],
        due=len(evidence.jobs) - len(case.codes),
        restarts=_starts(evidence.log) - evidence.starts_due,
        attempts_max=max(ran, default=0),
        recovery_seconds=max(recoveries(case, evidence.log), default=None),
    )


def flaws(case: Case, evidence: Evidence, wanted: Digests) -> Iterator[str]:
    """Everything that is not as it had to be, a sentence each."""
    number = {job: n for n, job in enumerate(evidence.jobs)}
    times = Counter(result.job_id for result in evidence.results)
    if lost := [number[job] for job in evidence.jobs if not times[job]]:
        yield f"no result of {lost}"
    if twice := [number[job] for job, n in times.items() if n > 1]:
        yield f"more than one result of {twice}"
    if evidence.lag:
        yield f"lag {evidence.lag} at the end"
    for result in evidence.results:
        yield from _unlike(case, number[result.job_id], result, wanted)
    for job in evidence.unlike_store:
        yield f"the published result of {number[job]} is not the stored one"
    yield from _of_faults(case, evidence)
    for name, status in evidence.statuses.items():
        if status != (due := case.exit_status if name == "first" and case.exit_status is not None else 0):
            yield f"the {name} consumer ended with {status}, not with {due}"
    for leftover in evidence.leftovers:
        yield f"left behind: {leftover}"


def _unlike(case: Case, n: int, result: GenerationResult, wanted: Digests) -> Iterator[str]:
    code = case.codes.get(n)
    if code is not None:
        if not (isinstance(result, Failed) and result.code == code):
            yield f"request {n} had to fail with {code}, and is {_end(result)}"
    elif not isinstance(result, Succeeded):
        yield f"request {n} is innocent, and is {_end(result)}"
    elif (n, result.bucket) not in wanted:
        yield f"request {n} was made in a bucket of {result.bucket}, which there is not"
    elif _digest(result) != wanted[n, result.bucket]:
        yield f"request {n} has other bytes than without the fault (bucket {result.bucket}, attempt {result.attempt})"
    elif result.bucket != BUCKET and not any(_is_of_memory(fault) for fault in case.faults):
        yield f"request {n} was made in a bucket of {result.bucket}, and memory never ran out"


def _of_faults(case: Case, evidence: Evidence) -> Iterator[str]:
    struck = Counter(line.fault for line in evidence.log if line.event == "fault")
    for place, fault in enumerate(case.faults):
        if not struck[place]:
            yield f"the fault never struck: {fault}"
        elif fault.kind in LETHAL and struck[place] > DEATHS_MAX:
            yield f"one job killed {struck[place]} engines, {DEATHS_MAX} are allowed"
    for place in range(len(case.faults)):
        sizes = [len(line.keys) for line in _lethal(case, evidence.log) if line.fault == place]
        if any(size > 1 for size in sizes[1:]):
            yield f"a job that had killed an engine was run beside others: batches of {sizes}"
    if case.blow is None:
        yield from _charged_in_error(case, evidence)
    low, high = case.restarts
    if not low <= (restarts := _starts(evidence.log) - evidence.starts_due) <= high:
        yield f"{restarts} engine restarts, not {low} to {high}"
    for seconds in recoveries(case, evidence.log):
        if seconds > evidence.recovery_seconds_max:
            yield f"{seconds:.0f} s from a death to the next work, {evidence.recovery_seconds_max:.0f} s are allowed"


def _charged_in_error(case: Case, evidence: Evidence) -> Iterator[str]:
    """Who pays for a death must have had a slot in an engine that died."""
    dead = {line.pid for line in _lethal(case, evidence.log)}
    had_slots = {
        key.partition("/")[0] for line in evidence.log if line.event == "work" and line.pid in dead for key in line.keys
    }
    for result in evidence.results:
        if isinstance(result, Succeeded | Failed) and result.attempt > 1 and result.job_id not in had_slots:
            yield f"{result.request_id} is charged with a death, and had no slot in an engine that died"


def recoveries(case: Case, log: Sequence[Line]) -> list[float]:
    """Seconds from each fault that killed an engine to the next work that an engine was given."""
    works = [line.at for line in log if line.event == "work"]
    after = [(line.at, [at for at in works if at > line.at]) for line in _lethal(case, log)]
    return [min(later) - at for at, later in after if later]


def _lethal(case: Case, log: Sequence[Line]) -> list[Line]:
    return [line for line in log if line.event == "fault" and case.faults[line.fault].kind in LETHAL]


def _starts(log: Sequence[Line]) -> int:
    return sum(line.event == "start" for line in log)


def _is_of_memory(fault: Fault) -> bool:
    return fault.kind in ("out_of_memory", "host_out_of_memory")


def _digest(result: Succeeded) -> str:
    return result.artifacts[0].sha256


def _end(result: GenerationResult) -> str:
    return f"failed with {result.code}: {result.message}" if isinstance(result, Failed) else result.status
