"""A checker that cannot fail is a defect: each kind of flaw is put into a sound history, and must be named."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fault import account, checks
from tests.fault.checks import find_flaws
from tests.fault.history import Meaning, Record
from tests.unit.fault.story import HOME, Story, picture, sound_story

Spoil = Callable[[Story], object]


def _edit(records: list[Record], place: int, **fields: Any) -> None:
    """Change members of the JSON body of a record."""
    body = json.loads(records[place].value or b"") | fields
    records[place] = replace(records[place], value=json.dumps(body).encode())


def _edit_outcome(story: Story, job: str, **fields: Any) -> None:
    story.outcomes[job] = json.dumps(json.loads(story.outcomes[job]) | fields).encode()


def _spoil_artifact(story: Story, **fields: Any) -> None:
    """Change what event and outcome of job-1 both say of its picture."""
    event = json.loads(story.results[0].value or b"")
    event["artifacts"][0] |= fields
    _edit(story.results, 0, **event)
    _edit_outcome(story, "job-1", result=event)


def _garble(records: list[Record], place: int) -> None:
    records[place] = replace(records[place], value=b"\xff")


def _again(records: list[Record], place: int) -> None:
    records.append(replace(records[place], offset=1000))


def _contradict(story: Story) -> None:
    _again(story.results, 0)
    _edit(story.results, -1, status="failed", code="x")


def _letter_again(story: Story, reason: str, first_offset: int) -> None:
    """The conflict's dead letter, saying something else."""
    story.dead_letters.pop(0)
    story.letter(story.requests[5], reason, first_offset)


def _first_artifact(story: Story) -> str:
    return next(uri for uri in story.artifacts if "/job-1/" in uri)


def _move(records: list[Record], place: int) -> None:
    records[place] = replace(records[place], partition=1 - records[place].partition)


def _lose_request(story: Story) -> None:
    story.requests = [record for record in story.requests if b'"three"' not in (record.value or b"")]


def _forget_asking(story: Story) -> None:
    _lose_request(story)
    story.sent = [sent for sent in story.sent if b'"three"' not in (sent.value or b"")]


def _unnumbered(story: Story) -> None:
    story.decisions[1] = replace(story.decisions[1], headers=())


def _overgrant(story: Story) -> None:
    for request_id in ("more", "and more"):
        decision = story.decide(story.ask(request_id), "accepted")
        story.draw(decision, story.emit(decision), seed=1, colour=3)


def _undergrant(story: Story) -> None:
    story.decisions.pop()
    story.results.pop()
    story.decide(story.ask("early"), "rejected", "rate_limited")
    early = story.requests.pop()
    story.requests.append(replace(early, timestamp_ms=early.timestamp_ms + 60_000))


def _undergrant_seconds(story: Story) -> None:
    """Long after the last of it was used."""
    _undergrant(story)
    _edit(story.decisions, -1, message="acme has 20 GPU-seconds at once")
    story.requests[-1] = replace(story.requests[-1], timestamp_ms=story.requests[-1].timestamp_ms + 1_000_000)


def _accept_a_stranger(story: Story) -> None:
    decision = {"number": 6, "tenant": "zeta", "request_id": "x", "job_id": "j", "verdict": "accepted", "offset": 99}
    story.decisions.append(Record("k.decisions", HOME, 6, b"zeta/x", json.dumps(decision).encode(), (("n", b"6"),)))


FLAWS: list[tuple[str, Spoil]] = [
    ("request_gone", _lose_request),
    ("request_from_nowhere", lambda s: s.requests.append(Record("k.requests", HOME, 77, b"acme", b"what?"))),
    ("never_sent_home", lambda s: s.requests.pop(3)),
    ("sent_home_twice", lambda s: s.requests.append(replace(s.requests[3], offset=77))),
    ("lag", lambda s: s.lags.update({"k.gpu.default": 1})),
    # events
    ("event_unreadable", lambda s: _garble(s.results, 0)),
    ("event_missing", lambda s: s.results.pop(0)),
    ("event_from_nowhere", _forget_asking),
    ("event_twice", lambda s: _again(s.results, 0)),
    ("event_contradicts", _contradict),
    ("event_unexplained", lambda s: _edit(s.results, 0, status="failed", code="engine_death")),
    ("event_misplaced", lambda s: _move(s.results, 0)),
    ("event_misplaced", lambda s: s.results.insert(0, replace(s.results.pop(0), key=b"other"))),
    ("event_differs", lambda s: _edit(s.results, 0, seed=6)),
    ("event_differs", lambda s: _edit(s.results, 0, metadata={"not": "asked"})),
    ("event_differs", lambda s: _edit(s.results, 0, artifacts=[])),
    ("event_differs", lambda s: _edit(s.results, 0, config={"name": "poster", "hash": "h"})),
    ("event_differs", lambda s: _spoil_artifact(s, seed=99)),
    ("expired_early", lambda s: _edit(s.results, 2, finished_at="2029-12-31T23:59:59Z")),
    # dead letters
    ("dead_letter_missing", lambda s: s.dead_letters.pop()),
    ("dead_letter_twice", lambda s: _again(s.dead_letters, 0)),
    ("dead_letter_undue", lambda s: s.letter(s.requests[0], "malformed")),
    ("dead_letter_unreadable", lambda s: s.dead_letters.append(Record("k.dead-letters", 0, 9, None, b""))),
    ("dead_letter_differs", lambda s: s.dead_letters.insert(0, replace(s.dead_letters.pop(0), value=b"{}"))),
    ("dead_letter_differs", lambda s: s.dead_letters.insert(0, replace(s.dead_letters.pop(0), key=None))),
    ("dead_letter_reason", lambda s: _letter_again(s, "malformed", 0)),
    ("dead_letter_first", lambda s: _letter_again(s, "conflicting_duplicate", 4)),
    # decisions
    ("decision_unreadable", lambda s: _garble(s.decisions, 0)),
    ("decision_number", _unnumbered),
    ("decision_number", lambda s: _edit(s.decisions, 3, number=3)),
    ("decided_twice", lambda s: _again(s.decisions, 0)),
    ("decision_key", lambda s: s.decisions.insert(0, replace(s.decisions.pop(0), key=b"acme/other"))),
    ("decision_from_nowhere", _forget_asking),
    ("decided_another", lambda s: _edit(s.decisions, 0, offset=1)),
    ("decision_missing", lambda s: s.decisions.pop()),
    ("event_against_decision", lambda s: _edit(s.decisions, 4, verdict="accepted", code=None)),
    ("event_against_decision", lambda s: _edit(s.decisions, 0, job_id="job-9")),
    ("event_against_decision", lambda s: _edit(s.decisions, 4, code="overloaded")),
    ("event_against_decision", lambda s: _edit(s.decisions, 0, verdict="cancelled")),
    ("event_against_decision", lambda s: _edit(s.decisions, 0, verdict="perhaps")),
    # quota
    ("quota_overgranted", _overgrant),
    ("quota_undergranted", _undergrant),
    ("quota_overgranted", lambda s: _edit(s.decisions, 0, price_gpu_seconds=20.5)),
    ("quota_undergranted", _undergrant_seconds),
    ("quota_clock", lambda s: _edit(s.decisions, 0, appended_ms=5)),
    ("quota_misstated", lambda s: _edit(s.decisions, 1, bucket_after=4.0)),
    ("quota_unknown", _accept_a_stranger),
    # usage
    ("usage_missing", lambda s: s.tenants.append(replace(s.tenants[0], value=None))),
    ("usage_differs", lambda s: _edit(s.tenants, -1, accepted=3)),
    ("usage_differs", lambda s: _edit(s.tenants, -1, finished=5)),
    ("usage_differs", lambda s: _edit(s.tenants, -1, gpu_seconds=0.5)),
    ("usage_differs", lambda s: _edit(s.tenants, 1, results_next=2)),
    # work
    ("work_undecided", lambda s: s.work.append(replace(s.work[0], key=b"job-99", offset=50))),
    ("work_of_refused", lambda s: s.work.append(replace(s.work[0], key=b"job-5", offset=50))),
    ("work_misrouted", lambda s: _move(s.work, 0)),
    ("work_misrouted", lambda s: s.work.insert(0, replace(s.work.pop(0), topic="k.work.default.bulk"))),
    ("work_differs", lambda s: s.work.insert(0, replace(s.work.pop(0), value=b'{"job_id":"job-1"}'))),
    ("work_missing", lambda s: s.work.pop()),
    # store
    ("refused_and_ran", lambda s: s.outcomes.update({"job-5": b"{}"})),
    ("refused_and_ran", lambda s: s.artifacts.update({"file:///store/artifacts/job-5/0-aa.png": b""})),
    ("outcome_missing", lambda s: s.outcomes.pop("job-1")),
    ("outcome_missing", lambda s: s.outcomes.pop("job-3")),
    ("outcome_unreadable", lambda s: s.outcomes.update({"job-1": b"{"})),
    ("outcome_differs", lambda s: _edit_outcome(s, "job-1", result={"status": "failed"})),
    ("outcome_misplaced", lambda s: _edit_outcome(s, "job-1", results_partition=1 - HOME)),
    ("outcome_of_no_work", lambda s: _edit_outcome(s, "job-1", record={"topic": "k", "partition": 0, "offset": 0})),
    ("outcome_unpublished", lambda s: s.outcomes.update({"job-99": b"{}"})),
    ("artifact_missing", lambda s: s.artifacts.pop(_first_artifact(s))),
    ("artifact_differs", lambda s: s.artifacts.update({_first_artifact(s): picture(77)})),
    ("artifact_differs", lambda s: _spoil_artifact(s, bytes=3)),
    ("artifact_broken", lambda s: _spoil_artifact(s, width=9)),
    ("artifact_unnamed", lambda s: s.artifacts.update({"file:///store/artifacts/job-1/0-bb.png": picture(1)})),
    ("picture_varies", lambda s: _spoil_artifact(s, sha256="0" * 64)),
]


def test_a_sound_history_has_no_flaw() -> None:
    assert find_flaws(sound_story().history()) == []


@pytest.mark.parametrize(("kind", "spoil"), FLAWS, ids=[f"{i}-{kind}" for i, (kind, _) in enumerate(FLAWS)])
def test_a_flaw_is_named(kind: str, spoil: Spoil) -> None:
    story = sound_story()
    spoil(story)
    assert kind in {flaw.kind for flaw in find_flaws(story.history())}


def test_every_kind_of_flaw_was_tried() -> None:
    sources = [Path(account.__file__), *Path(checks.__file__).parent.glob("*.py")]
    kinds = {kind for path in sources for kind in re.findall(r'Flaw\(\s*"(\w+)"', path.read_text(encoding="utf-8"))}
    assert kinds == {kind for kind, _ in FLAWS}


def test_an_empty_run_is_not_sound() -> None:
    story = sound_story()
    for topic in (story.decisions, story.work, story.results, story.dead_letters):
        topic.clear()
    story.outcomes.clear()
    kinds = {flaw.kind for flaw in find_flaws(story.history())}
    assert {"event_missing", "decision_missing", "dead_letter_missing"} <= kinds


def test_a_conflict_that_came_first_is_the_request() -> None:
    """The log decides which payload holds the name, not what its sender meant."""
    story = Story()
    conflict = story.ask("one", payload=1)
    original = story.ask("one")
    decision = story.decide(conflict, "accepted")
    story.draw(decision, story.emit(decision), seed=0)
    story.letter(original, "conflicting_duplicate", conflict.offset)
    assert find_flaws(story.history()) == []


def test_a_null_record_is_due_as_a_dead_letter() -> None:
    story = sound_story()
    story.append(None, Meaning(None))
    assert [flaw.kind for flaw in find_flaws(story.history())] == ["dead_letter_missing"]


def test_a_record_without_key_and_value_comes_back_with_an_empty_value() -> None:
    story = sound_story()
    story.append(None, Meaning(None))
    story.requests[-1] = replace(story.requests[-1], key=None)
    story.sent[-1] = replace(story.sent[-1], key=None)
    story.letter(replace(story.requests[-1], value=b""), "malformed")
    assert find_flaws(story.history()) == []
