"""The store with patience: what is said meanwhile."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.outcomes import Outcomes
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.store.base import OutcomeUnreadable, StoreSettings, StoreUnavailable
from gpu_consumer.store.choice import open_store
from gpu_consumer.store.outcomes import OutcomeStore
from schemas.outcome import Outcome


def outcomes(folder: Path, **settings: Any) -> Outcomes:
    store = OutcomeStore(open_store(f"file://{folder}", StoreSettings()))
    return Outcomes(store, GpuConsumerSettings(store_backoff_seconds_min=0.001, **settings), GpuMetrics())


async def test_an_outage_is_named_until_the_store_answers(tmp_path: Path) -> None:
    made, answers = outcomes(tmp_path), []
    made.on_answer = lambda: answers.append(made.waiting_for)
    tries = iter([StoreUnavailable("no answer"), None])
    named = []

    def lookup(_: str) -> None:
        named.append(made.waiting_for)
        if (error := next(tries)) is not None:
            raise error

    made._store.lookup = lookup  # type: ignore[method-assign, assignment]
    assert await made.lookup(["job"]) == [None]
    assert named == [None, "the store: no answer"]
    assert answers == [None], "those who waited are told"


async def test_what_cannot_be_read_is_an_answer_too(tmp_path: Path) -> None:
    made = outcomes(tmp_path)
    tries = iter([StoreUnavailable("no answer"), OutcomeUnreadable("of a later version")])

    def settle(outcome: Outcome) -> Outcome:
        raise next(tries)

    made._store.settle = settle  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnreadable):
        await made.settle(None)  # type: ignore[arg-type]
    assert made.waiting_for is None


async def test_a_call_that_hangs_is_named(tmp_path: Path) -> None:
    made, hangs = outcomes(tmp_path, progress_timeout_seconds=0.02), threading.Event()

    def lookup(_: str) -> None:
        hangs.wait(60)

    made._store.lookup = lookup  # type: ignore[method-assign, assignment]
    asked = asyncio.create_task(made.lookup(["job"]))
    async with asyncio.timeout(60):
        while made.silence is None:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
    assert "has not returned" in made.silence
    hangs.set()
    assert await asked == [None]
    async with asyncio.timeout(60):
        while made.silence is not None:  # noqa: ASYNC110 - the thread says so
            await asyncio.sleep(0.001)
