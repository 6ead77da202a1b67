"""What must hold of every record, whatever is in it, and of the one after it."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import get_args

from admission.arrival import Arrival
from admission.decide import decide
from admission.state import State
from admission.tokens import Encoder, TokenCounter
from admission.verdict import DeadLetter, Decided, Repeat, SendHome, TakeBack, Verdict
from admission.wait import Wait
from admission.world import World
from schemas.catalogue import ConfigCatalogue
from schemas.codec import canonical, decode_object
from schemas.control import Pause, Subject
from schemas.decision import RejectionCode, decode_decision
from schemas.errors import Undecodable
from schemas.names import request_name
from schemas.result import parse_result
from schemas.stops import Dropped
from schemas.tenants import KeyQuota, Quota, Rate, Span, Tenants
from schemas.topics import RECORD_BYTES_MAX, REQUEST_BYTES_MAX
from schemas.work import decode_work
from streams.batch import Batch
from streams.kafka.sending import Output
from streams.policies.listed import ListedPolicy, ListSettings
from tests.fuzz.samples import CANCELLED_ID, QUIET, Sample
from tests.unit.admission.scene import BIRTH, HOME, NOW_MS, TENANT, arrival, config_file, failed, make_world, request

_REPEATED = 8  # so many-th records come again at once
_FRAMES = 300
_WIRE_OVERHEAD_BYTES = 1024
_ANSWER_BYTES_MAX = 20_000  # a rejection returns some metadata and two short quotations
_ODD_TIMES_MS = (-1, 0, NOW_MS - 10**7, 2**62)
_METERED = Quota(
    per_second=0.02,
    burst=5,
    gpu_seconds=Rate(per_second=0.05, burst=12),
    keys={"k": KeyQuota(per_second=0.02, burst=2, day=Span(requests=50))},
)
Feature = tuple[str, ...]


def fuzz_world() -> World:
    """Windows of a minute or so: what must leave the memory leaves it while the fuzz runs. One tenant is often over its
    quota, another never."""
    world = make_world(
        tenants=Tenants(tenants={TENANT: _METERED, QUIET: Quota(per_second=1000, burst=1000)}),
        cancelled={request_name(TENANT, CANCELLED_ID): 2**62},
        dedupe_window_seconds=60,
        prompt_tokens="refuse",
        default_deadline_seconds=30,
        deadline_seconds_max=60,
        outstanding_slack_seconds=30,
        account_idle_seconds=30,
    )
    return replace(
        world,
        configs=ConfigCatalogue([*world.configs.files.values(), config_file("wide", width=8192, height=8192)]),
        policies={"list": _listed("[gore]\nblood bath\nknife*")},
        tokens={"tiny": TokenCounter((Encoder(count=lambda text: len(text.encode()) // 4 + 2, read=77, marks=2),))},
        waits={"default": Wait({"bulk": 1e9})},
        paused={Subject("config", "many@1"): Pause()},
        dropped={Subject("config", "many@2"): Dropped(2**62)},
    )


class Judge:
    """One partition that all records go through, a second apart."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._world = fuzz_world()
        self.state = State(HOME, self._world.limits)
        self.state.opened(lambda: BIRTH, 0, None, NOW_MS)
        self._seconds = 0
        self.ends: Counter[str] = Counter()

    def arrives(self, sample: Sample) -> Arrival:
        self._seconds += 1
        odd = self.state.next % _REPEATED and self._chance.random() < 0.01  # such a name may be over at once
        at_ms = self._chance.choice(_ODD_TIMES_MS) if odd else self._now_ms
        partition = HOME if sample.at_home else HOME + 1
        return Arrival(partition, self.state.next, at_ms, sample.key, sample.value, sample.headers)

    @property
    def _now_ms(self) -> int:
        return NOW_MS + self._seconds * 1000

    def decide(self, record: Arrival) -> Verdict:
        return decide(record, self.state, self._world, self._now_ms)

    def feature(self, verdict: Verdict) -> Feature:
        """What a verdict is apart from what it quotes: a new one is worth keeping its sample for."""
        match verdict:
            case Decided(decision=decision):
                said = re.sub(r"'.*'|\d+", "", decision.message or "")[:60]
                return decision.verdict, decision.code or "", said
            case DeadLetter(reason=reason, message=message):
                return reason, re.sub(r"'.*'|\d+", "", message)[:60]
        return (type(verdict).__name__,)

    def check(self, sample: Sample, record: Arrival, verdict: Verdict) -> None:
        """Raises AssertionError where something does not hold; makes the verdict true."""
        outputs = self.live(record)
        assert self.state.next == record.offset + 1, "the record blocks its partition"
        self._check_written(verdict, outputs)
        if isinstance(verdict, Decided) and verdict.decision.verdict == "accepted":
            limits = self._world.limits
            assert record.key in (None, verdict.decision.tenant.encode())
            assert record.record_bytes <= limits.record_bytes_max
            assert record.headers_bytes <= limits.headers_bytes_max
            assert len(record.headers) <= limits.headers_max
        self.ends[self.feature(verdict)[0] if not isinstance(verdict, Decided) else _end_of(verdict)] += 1
        _check_decoder(sample.value)
        if record.offset % _REPEATED == 0:
            self._check_repeat(record, verdict)
        if record.offset % 16 == 0:
            self._serve_another()
        if record.offset % 512 == 0:
            self.state.check_integrity()
        for job in [*self.state.outstanding][: self._chance.randrange(4)]:
            self.state.fold_result(failed(self.state, job, 1.0), self.state.results_next)

    def live(self, record: Arrival) -> list[Output]:
        """What the host does with a record, checked or not; what it writes."""
        batch = Batch(self.state, self._world, self._now_ms)
        batch.decide([record])
        transaction = batch.close()
        self.state.emitted(self.state.mark())
        return list(transaction.outputs)

    def _check_written(self, verdict: Verdict, outputs: list[Output]) -> None:
        catalogue = self._world.catalogue
        topics = Counter(each.topic for each in outputs)
        assert topics.pop(catalogue.tenants) >= 1
        topics.pop(catalogue.usage, 0)  # whoever left, whatever came
        for each in outputs:
            size = (
                len(each.key or b"") + len(each.value or b"") + sum(len(k.encode()) + len(v) for k, v in each.headers)
            )
            most = REQUEST_BYTES_MAX if each.topic == catalogue.requests else RECORD_BYTES_MAX
            assert size + _WIRE_OVERHEAD_BYTES <= most, f"{size} bytes for {each.topic}: its topic would refuse it"
        match verdict:
            case Repeat():
                assert not topics
            case SendHome():
                assert topics in ({catalogue.requests: 1}, {catalogue.dead_letters: 1})
            case DeadLetter():
                assert topics == {catalogue.dead_letters: 1}
            case TakeBack(name=name):
                assert topics == ({} if name is None else {catalogue.cancels: 1})
            case Decided(decision=decision, result=result):
                assert decision.code is None or decision.code in get_args(RejectionCode)
                assert (decision.verdict == "accepted") == (result is None) == (decision.work is not None)
                assert topics == Counter([catalogue.decisions] + [catalogue.results] * (result is not None))
                values = {each.topic: each.value or b"" for each in outputs}
                assert decode_decision(values[catalogue.decisions]) == decision
                if result is not None:
                    assert len(values[catalogue.results]) < _ANSWER_BYTES_MAX, "the answer quotes too much"
                    assert parse_result(values[catalogue.results]) == result
                if decision.work is not None:
                    work = decode_work(decision.work.encode())
                    assert (work.tenant, work.request_id) == (decision.tenant, decision.request_id)

    def _check_repeat(self, record: Arrival, verdict: Verdict) -> None:
        """At the same moment, since the name may be over in the next; by a caller whose stack is deep, since what a
        record is must not depend on that."""
        record = replace(record, offset=self.state.next)
        again = _deeper(_FRAMES, lambda: self.decide(record))
        if isinstance(verdict, Decided):
            assert isinstance(again, Repeat), f"the same bytes again are {again}"
            assert again.job_id == verdict.decision.job_id
        else:
            assert type(again) is type(verdict)
        self.state.apply(record, again)

    def _serve_another(self) -> None:
        record = arrival(request(f"next-{self.state.next}", tenant=QUIET), self.state.next, at_ms=self._now_ms)
        verdict = self.decide(record)
        assert isinstance(verdict, Decided)
        assert verdict.decision.verdict == "accepted", f"the next one is not served: {verdict.decision.message}"
        self.state.apply(record, verdict)


def _listed(terms: str) -> ListedPolicy:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "terms"
        file.write_text(terms, encoding="utf-8")
        return ListedPolicy(file, ListSettings(file=file))


def _deeper(frames: int, what: Callable[[], Verdict]) -> Verdict:
    return what() if frames == 0 else _deeper(frames - 1, what)


def _end_of(verdict: Decided) -> str:
    return verdict.decision.code or verdict.decision.verdict


def _check_decoder(value: bytes | None) -> None:
    """Either it is refused, or it is the same when it is written and read again."""
    try:
        body = decode_object(value or b"")
    except Undecodable:
        return
    assert decode_object(canonical(body)) == body
