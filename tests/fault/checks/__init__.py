"""The checks, one promise a file. `find_flaws` runs them all and looks at nothing but a History."""

from collections.abc import Callable, Iterator, Sequence

from tests.fault.account import Account, check_delivery, settle_account
from tests.fault.checks.dead_letters import check_dead_letters
from tests.fault.checks.decisions import check_decisions
from tests.fault.checks.events import check_events
from tests.fault.checks.pictures import check_twins
from tests.fault.checks.quota import check_quota
from tests.fault.checks.stored import check_stored
from tests.fault.checks.usage import check_usage
from tests.fault.checks.work import check_work
from tests.fault.history import Flaw, History

CHECKS: Sequence[Callable[[History, Account], Iterator[Flaw]]] = (
    check_delivery,
    check_events,
    check_dead_letters,
    check_decisions,
    check_quota,
    check_usage,
    check_work,
    check_stored,
    check_twins,
)


def find_flaws(history: History) -> list[Flaw]:
    """Every broken promise of a history that has come to rest; empty where all is well."""
    account = settle_account(history)
    flaws = [flaw for check in CHECKS for flaw in check(history, account)]
    flaws += [Flaw("lag", f"group {group} lags {lag} behind") for group, lag in history.lags.items() if lag != 0]
    return flaws
