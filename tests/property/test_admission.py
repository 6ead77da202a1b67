"""Admission over any bytes and any sequence: nothing raises, nothing is granted twice, a successor knows the same."""

import json
from collections import Counter
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from admission.decide import decide
from admission.stages.decode import Named, decode
from admission.verdict import DeadLetter, Decided, Repeat, SendHome, TakeBack
from schemas.codec import encode
from schemas.composed import decision_record
from schemas.partition import partition_of
from schemas.request import SEED_MAX, GenerationRequest
from tests.unit.admission.scene import (
    HOME,
    NOW_MS,
    PARTITIONS,
    Partition,
    accepted,
    arrival,
    fresh_state,
    make_world,
    request,
    snapshot,
)

HOUR_MS = 3_600_000

# Bytes ---------------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from([*GenerationRequest.model_fields, "prompt ", ""])
DEADLINES = st.datetimes().map(str) | st.text(alphabet="0123456789-:TZ+. einfaNW", max_size=30)
MUTATED = st.dictionaries(FIELDS, JSON | DEADLINES, max_size=4).map(lambda changes: {**request(), **changes})
BYTES = st.binary(max_size=200) | st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))
HEADERS = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=50)), max_size=40)
KEYS = st.none() | st.just(b"alice") | st.binary(max_size=10)
TIMES = st.integers(-1, 2**62)


@given(BYTES | st.none(), KEYS, HEADERS, TIMES, TIMES)
def test_no_bytes_raise(
    value: bytes | None,
    key: bytes | None,
    headers: list[tuple[str, bytes | None]],
    at_ms: int,
    now_ms: int,
) -> None:
    record = arrival(value, key=key, at_ms=at_ms, headers=headers)
    verdict = decide(record, fresh_state(), make_world(), now_ms % 2**45)
    assert isinstance(verdict, DeadLetter | Decided | SendHome | TakeBack)


@given(MUTATED, st.booleans())
@example({**request(), "deadline": "1e999"}, True)
@example({**request(), "deadline": "nan"}, True)
def test_every_named_body_ends_as_a_decision_that_can_be_written(body: dict[str, Any], ascii_only: bool) -> None:
    value = json.dumps(body, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    named = decode(value)
    state = fresh_state()
    record = arrival(value)
    verdict = decide(record, state, make_world(), NOW_MS)
    if not isinstance(named, Named):
        assert isinstance(verdict, DeadLetter)
    elif partition_of(named.tenant.encode(), PARTITIONS) != HOME:
        assert isinstance(verdict, SendHome)
    else:
        assert isinstance(verdict, Decided)
        assert (verdict.result is None) == (verdict.decision.verdict == "accepted")
        assert len(decision_record(verdict.decision)) < 100_000
        if verdict.result is not None:
            assert len(encode(verdict.result)) < 100_000
        state.apply(record, verdict)
        assert isinstance(decide(arrival(value, 1), state, make_world(), NOW_MS), Repeat)


@given(st.integers(0, SEED_MAX), st.integers(1, 4))
def test_every_seed_that_is_accepted_is_used_and_every_picture_has_one(seed: int, images: int) -> None:
    verdict = decide(arrival(request(seed=seed, images=images)), fresh_state(), make_world(), NOW_MS)
    if seed + images - 1 <= SEED_MAX:
        assert accepted(verdict).seed == seed
    else:
        assert isinstance(verdict, Decided)
        assert verdict.decision.code == "invalid_seed"


@given(MUTATED)
def test_a_body_serialised_again_has_the_same_digest(body: dict[str, Any]) -> None:
    try:
        once = json.dumps(body, allow_nan=False).encode()
        again = json.dumps(dict(reversed(body.items())), ensure_ascii=False, indent=1).encode()
    except (ValueError, UnicodeEncodeError):
        return
    first, second = decode(once), decode(again)
    if isinstance(first, Named) and not isinstance(first.body, dict):
        return
    assert isinstance(first, Named) == isinstance(second, Named)
    if isinstance(first, Named) and isinstance(second, Named):
        assert first.digest == second.digest


# Lives ---------------------------------------------------------------------------------------------------------------

BODIES = st.builds(
    request,
    st.sampled_from("abcdef"),
    tenant=st.sampled_from(["alice", "ivan", "t"]),
    seed=st.sampled_from([0, 1, -1]),
) | st.sampled_from([b"garbage", None, b'{"tenant":"alice","request_id":"a","seed":NaN}'])
STEP = st.one_of(
    st.tuples(st.just("send"), BODIES),
    st.tuples(st.just("send"), BODIES),
    st.tuples(st.just("time"), st.sampled_from([-HOUR_MS, -1, 1, 500, 1000, HOUR_MS // 2, HOUR_MS, 26 * HOUR_MS])),
    st.tuples(st.just("result"), st.integers(0, 5)),
    st.tuples(st.just("skip"), st.integers(1, 3)),
    st.tuples(st.just("log"), st.none()),
    st.tuples(st.just("emit"), st.none()),
    st.tuples(st.just("kill"), st.booleans()),
)


class Life:
    """A partition through any steps; kills are at transaction boundaries, as the log sees them."""

    def __init__(self) -> None:
        self.partition = Partition()
        self.moment = NOW_MS
        self.sent: list[tuple[int, Any, int]] = []

    def step(self, kind: str, what: Any) -> None:
        partition, state = self.partition, self.partition.state
        match kind:
            case "send":
                partition.decide(arrival(what, state.next, at_ms=self.moment))
            case "time":
                self.moment += what
            case "result" if state.outstanding:
                job_id = sorted(state.outstanding)[what % len(state.outstanding)]
                partition.finish(job_id)
            case "skip":
                state.skip_to(state.next + what)
            case "log":
                partition.log()
            case "emit":
                partition.log()
                partition.emit()
            case "kill":
                partition.log()
                self.take_over(compacted=what)

    def take_over(self, *, compacted: bool) -> None:
        before = snapshot(self.partition.state)
        now_ms = before["cursor"].clock_ms
        for tenants_first in (True, False):
            state, again = self.partition.take_over(now_ms, compacted=compacted, tenants_first=tenants_first)
            assert snapshot(state) == before
            assert [each.offset for each in again] == sorted(each.offset for each in again)
        state.check_integrity()
        self.partition.state = state
        self.partition.produced += again


@given(st.lists(STEP, max_size=60))
def test_a_successor_knows_and_decides_the_same(steps: list[tuple[str, Any]]) -> None:
    life = Life()
    for kind, what in steps:
        life.step(kind, what)
        life.partition.state.check_integrity()
    partition = life.partition
    partition.log()
    predecessor = partition.state
    successor, _ = partition.take_over(predecessor.clock_ms)
    for offset, body in enumerate([request(each) for each in "abcdefg"], predecessor.next):
        record = arrival(body, offset, at_ms=life.moment)
        mine, theirs = (decide(record, each, partition.world, life.moment) for each in (predecessor, successor))
        assert mine == theirs
        predecessor.apply(record, mine)
        successor.apply(record, theirs)
    assert predecessor.drain_changes() == successor.drain_changes()


@given(st.lists(STEP, max_size=60))
def test_everything_accepted_is_produced_whoever_is_killed(steps: list[tuple[str, Any]]) -> None:
    life = Life()
    for kind, what in [*steps, ("emit", None)]:
        life.step(kind, what)
    wanted = {value for _, _, value in life.partition.decisions if b'"verdict":"accepted"' in value}
    assert {decision_record(each) for each in life.partition.produced} == wanted


@given(st.lists(BODIES, min_size=1, max_size=30), st.integers(0, HOUR_MS - 1))
def test_the_same_requests_again_within_the_window_decide_nothing(bodies: list[Any], after_ms: int) -> None:
    partition = Partition()
    first = [partition.send(body) for body in bodies]
    number = partition.state.decided
    tokens = {name: account.tokens for name, account in partition.state.accounts()}
    for body, verdict in zip(bodies, first, strict=True):
        again = partition.send(body, at_ms=NOW_MS + after_ms)
        if isinstance(verdict, Decided):
            assert isinstance(again, Repeat)
            assert again.job_id == verdict.decision.job_id
        else:
            assert type(again) is type(verdict)
    assert partition.state.decided == number
    assert {name: account.tokens for name, account in partition.state.accounts()} == tokens


@given(st.lists(STEP, max_size=60))
def test_each_arrival_has_one_end_and_the_counts_add_up(steps: list[tuple[str, Any]]) -> None:
    life = Life()
    ends: Counter[str] = Counter()
    for kind, what in steps:
        decided_before = life.partition.state.decided
        life.step(kind, what)
        ends["sent"] += kind == "send"
        ends["decided"] += life.partition.state.decided - decided_before
    state = life.partition.state
    verdicts = Counter(json.loads(value)["verdict"] for _, _, value in life.partition.decisions)
    known = dict(state.accounts())
    assert ends["decided"] == verdicts.total() <= ends["sent"]
    assert sum(account.accepted for account in known.values()) == verdicts["accepted"]
    over = sum(account.finished + account.dropped for account in known.values())
    assert over + len(state.outstanding) == verdicts["accepted"]
    strangers = sum(b'"tenant":"t"' in value for _, _, value in life.partition.decisions)
    assert sum(account.rejected for account in known.values()) == verdicts["rejected"] - strangers
