"""Every fault that a card can have, and what must come of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.fault.gpu.faults import Fault, Kind
from tests.fault.gpu.requests import job_of

DEATHS_MAX = 3  # of engines, for one job
RESTARTS_MAX = 2  # an hour, where the card is past saving
WHOLE = 9  # of every ten requests, the one that does not join and leave
Blow = Literal["kill", "stop"]


@dataclass(frozen=True, slots=True)
class Case:
    """`codes`: request -> why it fails; all others succeed. `restarts`: of engines, at least and at most.

    `blow`: what happens to the first of two consumers in the middle. `exit_status`: of the consumer that gives up; the
    requests it leaves are then made by one whose card is well.
    """

    name: str
    faults: Sequence[Fault] = ()
    codes: Mapping[int, str] = field(default_factory=dict)
    restarts: tuple[int, int] = (0, 0)
    blow: Blow | None = None
    exit_status: int | None = None
    pace_seconds: float = 0.0


def make_cases(count: int) -> list[Case]:
    """Of runs of `count` requests. The guilty is the one in the middle; one case has it in a batch that runs whole."""
    middle = count // 2 // 10 * 10  # joins and leaves
    whole = middle + WHOLE
    # The last death may end the last request, and then nobody waits for another start.
    once, thrice = (1, 1), (DEATHS_MAX - 1, DEATHS_MAX)

    def fault(name: str, kind: Kind, n: int | None = middle, **more: Any) -> Fault:
        return Fault.model_validate({"kind": kind, "job": "" if n is None else job_of(name, n), **more})

    def guilty(name: str, kind: Kind, code: str, n: int = middle, **more: Any) -> Case:
        return Case(name, [fault(name, kind, n, **more)], {n: code})

    def deadly(name: str, kind: Kind, n: int = middle, **more: Any) -> Case:
        return Case(name, [fault(name, kind, n, **more)], {n: "engine_death"}, restarts=thrice)

    def passing(name: str, kind: Kind, **more: Any) -> Case:
        return Case(name, [fault(name, kind, times=1, **more)], restarts=once)

    everything = "all-at-once"
    return [
        Case("nothing"),
        guilty("item-out-of-memory", "out_of_memory", "out_of_memory"),
        guilty("item-out-of-memory-decode", "out_of_memory", "out_of_memory", stage="decode"),
        Case("batch-out-of-memory", [fault("batch-out-of-memory", "out_of_memory", None, above=2)]),
        guilty("host-out-of-memory", "host_out_of_memory", "out_of_memory"),
        guilty("nan-denoise", "non_finite", "non_finite"),
        guilty("nan-decode", "non_finite", "non_finite", stage="decode"),
        guilty("nan-whole", "non_finite", "non_finite", whole, stage="decode"),
        guilty("one-colour", "one_colour", "blank_output", stage="decode"),
        guilty("error", "error", "generation_error"),
        guilty("error-whole", "error", "generation_error", whole),
        # The step loop may have heard the text already, on a hint that names nobody.
        guilty("error-text", "error", "generation_error", whole, stage="text"),
        deadly("sticky", "sticky"),
        passing("sticky-once", "sticky"),
        deadly("hang", "hang"),
        passing("hang-once-decode", "hang", stage="decode"),
        deadly("killed", "kill", stage="decode"),
        deadly("killed-whole", "kill", whole),
        passing("killed-once", "kill"),
        Case("consumer-killed", blow="kill", pace_seconds=0.02),
        Case("scale-in", blow="stop", pace_seconds=0.02),
        Case(
            "wrong-card",
            [
                fault("wrong-card", "kill", times=1),
                fault("wrong-card", "wrong_pixels", None, stage="decode", from_start=2),
            ],
            restarts=(RESTARTS_MAX, RESTARTS_MAX),
            exit_status=3,
        ),
        Case(
            everything,
            [
                fault(everything, "non_finite", 3),
                fault(everything, "one_colour", 7, stage="decode"),
                fault(everything, "sticky", 5, times=1),
                fault(everything, "error", middle),
                fault(everything, "out_of_memory", middle + 5),
                fault(everything, "kill", middle + 2, stage="decode"),
            ],
            {3: "non_finite", 7: "blank_output", middle: "generation_error", middle + 5: "out_of_memory",
             middle + 2: "engine_death"},
            restarts=(DEATHS_MAX - 1, DEATHS_MAX + 1),  # the sticky one may be charged to whom the other kills
        ),
    ]  # fmt: skip
