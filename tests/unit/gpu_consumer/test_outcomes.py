"""The store with patience: what is said meanwhile."""

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from gpu_consumer.engine.protocol import Picture
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.outcomes import Ending, Outcomes
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.store.base import OutcomeUnreadable, StoreRefused, StoreSettings, StoreUnavailable
from gpu_consumer.store.choice import open_store
from gpu_consumer.store.outcomes import OutcomeStore


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


def ending(n: int) -> Ending:
    """Of a job with one picture, whose outcome tells the picture's bytes."""
    picture = Picture(key="k", data=bytes(n), content_type="image/png", extension="png", width=8, height=8, bucket=1)
    told: Any = lambda artifacts, _: [artifact.bytes for artifact in artifacts]  # noqa: E731 -- as good as an outcome
    return Ending(str(UUID(int=n)), [(0, picture)], told)


async def test_what_cannot_be_read_is_an_answer_of_its_job_alone(tmp_path: Path) -> None:
    made = outcomes(tmp_path)

    def settle(outcome: Any) -> Any:
        if outcome == [2]:
            raise OutcomeUnreadable("of a later version")
        return outcome

    made._store.settle = settle  # type: ignore[method-assign]
    answers: list[Any] = await made.settle([ending(n) for n in (1, 2, 3)])
    assert isinstance(answers.pop(1), OutcomeUnreadable)
    assert answers == [[1], [3]]
    assert made.waiting_for is None


def scripted(made: Outcomes, tries: Iterable[Exception | None]) -> list[Any]:
    """A store that does or raises what it is told, call after call: what it was asked to store, bytes or an outcome."""
    calls, left = [], iter(tries)

    def call(what: Any) -> Any:
        calls.append(what)
        if (error := next(left)) is not None:
            raise error
        return SimpleNamespace(bytes=what)

    made._store.put_artifact = lambda job_id, n, data, *_: call(len(data))  # type: ignore[method-assign]
    made._store.settle = lambda outcome: call(outcome) and outcome  # type: ignore[method-assign]
    return calls


@pytest.mark.parametrize("failure", [StoreUnavailable("no answer"), StoreRefused("too large")])
async def test_where_the_store_fails_amid_several_jobs_the_answers_end(tmp_path: Path, failure: Exception) -> None:
    made = outcomes(tmp_path)
    calls = scripted(made, [None, None, None, failure])
    answers: list[Any] = await made.settle([ending(1), ending(2), ending(3)])
    assert answers == [[1]]
    assert calls == [1, [1], 2, [2]]


async def test_one_job_alone_is_tried_on_from_where_it_was(tmp_path: Path) -> None:
    made, outage = outcomes(tmp_path), StoreUnavailable("no answer")
    calls = scripted(made, [outage, None, outage, None])
    answers: list[Any] = await made.settle([ending(1)])
    assert answers == [[1]]
    assert calls == [1, 1, [1], [1]], "what is stored is not stored again"


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


def test_many_are_split_among_the_threads_and_few_go_each_to_one(tmp_path: Path) -> None:
    made = outcomes(tmp_path, store_threads=4)
    assert [[*part] for part in made.parts(range(10))] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert [[*part] for part in made.parts("abc")] == [["a"], ["b"], ["c"]]
    assert made.parts(()) == []
