"""The content policies, watched: how long each takes, how often it fails, and whether it can judge at all."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Self

from admission.policy import Policy, PolicyAnswer, PolicyText
from admission.world import World
from streams.metrics import AdmissionMetrics

log = logging.getLogger(__name__)
_TELL_SECONDS = 60.0  # a policy that fails does so for every request: its log line would be the only one


class PoliciesFact:
    """While a policy says that it cannot judge nothing is decided: a refusal would be final, and the reason is not."""

    name = "policies"
    failure: Exception | None = None
    age_seconds = 0.0

    def __init__(self, policies: Mapping[str, Policy], metrics: AdmissionMetrics, slow_seconds: float) -> None:
        self._watched = {name: _Watched(name, policy, metrics, slow_seconds) for name, policy in policies.items()}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    @property
    def problem(self) -> str | None:
        return next((problem for each in self._watched.values() if (problem := each.problem) is not None), None)

    def into(self, world: World) -> World:
        return replace(world, policies=self._watched) if self._watched else world


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
