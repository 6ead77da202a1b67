"""Admission of its environment, killed where it is told: python -m tests.integration.restart_child NUMBER POINT ...

logged      the first batch is in the log, none of its work is produced
tenants     the lease is fenced, the first record of tenants is read
decisions   so many of the decisions that are needed are read
folded      all is read
emitted     what was logged and not produced is produced, and the log does not say so yet
said        the log says so, and nothing else was done

One process for each, by SIGKILL; they are forked, since to import all of it takes longer than to open a partition.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from admission.state import State
from streams.commands.admission import run
from streams.emission import Emission
from streams.kafka.lease import Lease


def die(*_: Any, **__: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL came back")


def after(method: Callable[..., Any], times: int = 1) -> Callable[..., Any]:
    """`method`, and death when it returns for that time."""
    left = times

    async def then_die(*given: Any, **named: Any) -> Any:
        nonlocal left
        returned = await method(*given, **named)
        left -= 1
        return returned if left else die()

    return then_die


def on_call(method: Callable[..., Any], times: int) -> Callable[..., Any]:
    left = times

    def die_at_last(*given: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        return method(*given, **named) if left else die()

    return die_at_last


def arm(point: str, decisions: int) -> None:
    match point:
        case "logged":
            emit = Emission.emit

            async def logged(self: Emission, accepted: Any, **named: Any) -> None:
                if accepted:
                    die()
                await emit(self, accepted, **named)

            Emission.emit = logged  # type: ignore[method-assign, assignment]
        case "tenants":
            State.fold_tenants = die  # type: ignore[method-assign]
        case "decisions":
            State.fold_decision = on_call(State.fold_decision, decisions)  # type: ignore[method-assign]
        case "folded":
            State.opened = die  # type: ignore[method-assign]
        case "emitted":
            Emission.emit = after(Emission.emit)  # type: ignore[method-assign]
        case "said":
            Lease.transact = after(Lease.transact)  # type: ignore[method-assign]
        case _:
            raise ValueError(point)


def main() -> int:
    decisions, *points = sys.argv[1:]
    for point in points:
        child = os.fork()
        if child == 0:
            arm(point, int(decisions))
            run()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            print(f"{point}: it ended with {status} instead of being killed", file=sys.stderr)
            return 1
        print(point, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
