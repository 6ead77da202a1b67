"""The content policies, watched: how long each takes, how often it fails, whether it can judge at all, and whether what
it was made of can be read again."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Self

from admission.policy import Policy, PolicyAnswer, PolicyText
from admission.world import World
from schemas.errors import told
from streams.kafka.periodic import failure_of
from streams.metrics import AdmissionMetrics

log = logging.getLogger(__name__)
_TELL_SECONDS = 60.0  # a policy that fails does so for every request: its log line would be the only one


class PoliciesFact:
    """While a policy says that it cannot judge nothing is decided: a refusal would be final, and the reason is not. One
    that cannot be read again goes on as it was: that is told, and its age grows."""

    name = "policies"

    def __init__(
        self, policies: Mapping[str, Policy], metrics: AdmissionMetrics, slow_seconds: float, refresh_seconds: float
    ) -> None:
        self._watched = {name: _Watched(name, policy, metrics, slow_seconds) for name, policy in policies.items()}
        refreshing = {name: getattr(policy, "refresh", None) for name, policy in policies.items()}
        self._refreshed = [_Refreshed(name, refresh) for name, refresh in refreshing.items() if refresh is not None]
        self._refresh_seconds = refresh_seconds
        self._refreshing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._refreshed:
            self._refreshing = asyncio.create_task(self._keep_refreshing(), name=self.name)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing})

    @property
    def failure(self) -> Exception | None:
        return failure_of(self._refreshing)

    @property
    def age_seconds(self) -> float:
        now = time.monotonic()
        return max((now - each.current_at for each in self._refreshed), default=0.0)

    @property
    def note(self) -> str | None:
        """Which policy is not what it should be by now, for a person."""
        return next((each.note for each in self._refreshed if each.note is not None), None)

    @property
    def problem(self) -> str | None:
        return next((problem for each in self._watched.values() if (problem := each.problem) is not None), None)

    def into(self, world: World) -> World:
        return replace(world, policies=self._watched) if self._watched else world

    async def _keep_refreshing(self) -> None:
        while True:
            await asyncio.sleep(self._refresh_seconds)
            for each in self._refreshed:
                await asyncio.to_thread(each.refresh)


class _Refreshed:
    """A policy that can be read again. `note`: why it could not, the last time."""

    def __init__(self, name: str, refresh: Callable[[], None]) -> None:
        self._name = name
        self._refresh = refresh
        self.current_at = time.monotonic()
        self.note: str | None = None

    def refresh(self) -> None:
        """Blocks. Each trouble is logged once."""
        try:
            self._refresh()
        except Exception as error:
            note = f"the content policy {self._name!r} is as it was before: {told(error)}"
            new, self.note = note != self.note, note
            if new:
                log.warning("%s", note)
        else:
            self.current_at, self.note = time.monotonic(), None


class _Watched:
    """A policy with a clock beside it. What it raises is passed on: what that means is decided elsewhere."""

    def __init__(
        self,
        name: str,
        policy: Policy,
        metrics: AdmissionMetrics,
        slow_seconds: float,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._name = name
        self._policy = policy
        self._metrics = metrics
        self._slow_seconds = slow_seconds
        self._now = now
        self._told_at = -_TELL_SECONDS

    @property
    def problem(self) -> str | None:
        try:
            problem = getattr(self._policy, "problem", None)
        except Exception as error:
            problem = type(error).__name__
        return None if problem is None else f"the content policy {self._name!r} cannot judge: {problem}"

    def judge(self, text: PolicyText) -> PolicyAnswer | None:
        began = self._now()
        answer = "failed"
        try:
            judged = self._policy.judge(text)
            answer = "passed" if judged is None else "refused"
        except Exception as error:
            self._tell("failed on a text with %s; its own log may say more", _where(error))
            raise
        finally:
            seconds = self._now() - began
            self._metrics.observe("policy_seconds", seconds, policy=self._name)
            self._metrics.count("policy_answers_total", policy=self._name, answer=answer)
            if seconds > self._slow_seconds:
                self._tell("took %.3f s for a text, and every request waits for it", seconds)
        return judged

    def _tell(self, what: str, detail: object) -> None:
        """Never with the text, nor with what an error says of it."""
        if self._now() - self._told_at >= _TELL_SECONDS:
            self._told_at = self._now()
            log.warning(f"the content policy %r {what}", self._name, detail)


def _where(error: Exception) -> str:
    """The kind of error, and the line that raised it."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = "" if last is None else f" at {last.tb_frame.f_code.co_filename}:{last.tb_lineno}"
    return f"{type(error).__name__}{place}"
