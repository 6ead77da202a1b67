"""A sound run told record by record, which a test then spoils in one place."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from PIL import Image

from schemas.dead_letter import dead_letter_headers
from schemas.partition import partition_of
from tests.fault.history import History, Limit, Meaning, Record, Sent, Stored

PARTITIONS = 2
TENANT = "acme"
HOME = partition_of(TENANT.encode(), PARTITIONS)
LIMIT = Limit(burst=4, per_second=1, gpu_burst=20, gpu_per_second=0.1)
PRICE = 2.0
START_MS = 1_700_000_000_000
WORK_TOPIC = "k.work.default.standard"
_RUNS = frozenset({"succeeded", "expired", "rejected:rate_limited"})


@dataclass
class Story:
    """Mutable lists of what the topics and the store hold; `history()` freezes them."""

    sent: list[Sent] = field(default_factory=list)
    requests: list[Record] = field(default_factory=list)
    decisions: list[Record] = field(default_factory=list)
    work: list[Record] = field(default_factory=list)
    results: list[Record] = field(default_factory=list)
    dead_letters: list[Record] = field(default_factory=list)
    outcomes: dict[str, bytes] = field(default_factory=dict)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    lags: dict[str, int] = field(default_factory=lambda: {"k.admission": 0, "k.gpu.default": 0})
    tenants: list[Record] = field(default_factory=list)
    tokens: float = LIMIT.burst

    def history(self) -> History:
        return History(
            requests_partitions=PARTITIONS,
            limits={TENANT: LIMIT},
            sent=self.sent,
            requests=sorted(self.requests, key=lambda record: record.place),
            decisions=self.decisions,
            work=self.work,
            results=self.results,
            dead_letters=self.dead_letters,
            stored=Stored(self.outcomes, self.artifacts),
            lags=self.lags,
            tenants=self.tenants or self.accounts(),
        )

    def append(self, value: bytes | None, meaning: Meaning, *, partition: int = HOME, copy: bool = False) -> Record:
        """A record of requests; a copy is one that admission wrote itself. No time passes between records."""
        offset = sum(record.partition == partition for record in self.requests)
        record = Record("k.requests", partition, offset, TENANT.encode(), value, (), START_MS)
        self.requests.append(record)
        if not copy:
            self.sent.append(Sent(record.key, value, partition, offset, meaning))
        return record

    def ask(self, request_id: str, *, ends: frozenset[str] = _RUNS, payload: int = 0, **fields: Any) -> Record:
        body = {"tenant": TENANT, "request_id": request_id, "prompt": "a fox", "config": {"name": "sketch"}, **fields}
        value = json.dumps(body | {"payload": payload} if payload else body).encode()
        return self.append(value, Meaning((TENANT, request_id), payload, ends, body))

    def decide(self, request: Record, verdict: str, code: str | None = None) -> dict[str, Any]:
        """The decision about a request; an accepted one takes a token."""
        asked = json.loads(request.value or b"")
        number = len(self.decisions) + 1
        if verdict == "accepted":
            self.tokens -= 1
        decision = {
            "number": number,
            "tenant": TENANT,
            "request_id": asked["request_id"],
            "job_id": f"job-{number}",
            "verdict": verdict,
            "code": code,
            "offset": request.offset,
            "appended_ms": request.timestamp_ms,
            "bucket_after": self.tokens,
            "price_gpu_seconds": PRICE if verdict == "accepted" else 0.0,
            "message": "acme has 4 requests at once" if code else None,
        }
        if verdict == "accepted":
            decision["route"] = {"pool": "default", "lane": "standard", "partition": 3}
            decision["work"] = {"job_id": decision["job_id"]}
        key = f"{TENANT}/{asked['request_id']}".encode()
        value = json.dumps(decision).encode()
        headers = (("n", str(number).encode()),)
        self.decisions.append(Record("k.decisions", HOME, number, key, value, headers))
        if verdict == "rejected":
            self.tell(decision, status="rejected", code=code)
        return decision

    def accounts(self) -> list[Record]:
        """What admission would say of the tenant once it has read every result."""
        decisions = [json.loads(record.value or b"") for record in self.decisions]
        verdicts = Counter(decision["verdict"] for decision in decisions)
        accepted = {decision["job_id"] for decision in decisions if decision["verdict"] == "accepted"}
        ended = [json.loads(record.value or b"") for record in self.results]
        ended = [event for event in ended if event["job_id"] in accepted]
        told = verdicts | {
            "finished": len(ended),
            "gpu_seconds": sum(event.get("gpu_seconds", 0.0) for event in ended),
        }
        cursor = {"results_next": len(self.results)}
        said = [(TENANT.encode(), {"accepted": 1}), (b"\0cursor", cursor), (TENANT.encode(), told)]
        return [
            Record("k.tenants", HOME, place, key, json.dumps(body).encode()) for place, (key, body) in enumerate(said)
        ]

    def emit(self, decision: dict[str, Any]) -> Record:
        value = json.dumps(decision["work"]).encode()
        work = Record(WORK_TOPIC, 3, len(self.work), decision["job_id"].encode(), value, (), START_MS)
        self.work.append(work)
        return work

    def tell(self, decision: dict[str, Any], **fields: Any) -> dict[str, Any]:
        event = {"tenant": TENANT, "request_id": decision["request_id"], "job_id": decision["job_id"], **fields}
        place = len(self.results)
        self.results.append(Record("k.results", HOME, place, TENANT.encode(), json.dumps(event).encode()))
        return event

    def settle(self, decision: dict[str, Any], work: Record, **fields: Any) -> None:
        """Store an outcome and publish it."""
        event = self.tell(decision, **fields)
        outcome = {
            "job_id": decision["job_id"],
            "record": {"topic": work.topic, "partition": work.partition, "offset": work.offset},
            "results_partition": HOME,
            "result": event,
        }
        self.outcomes[decision["job_id"]] = json.dumps(outcome).encode()

    def draw(self, decision: dict[str, Any], work: Record, *, seed: int, colour: int = 0) -> None:
        """Store a picture and settle as succeeded."""
        data = picture(colour)
        digest = hashlib.sha256(data).hexdigest()
        uri = f"file:///store/artifacts/{decision['job_id']}/0-{digest}.png"
        self.artifacts[uri] = data
        artifact = {"uri": uri, "sha256": digest, "bytes": len(data), "width": 8, "height": 8, "seed": seed}
        config = {"name": "sketch", "hash": "h"}
        self.settle(decision, work, status="succeeded", config=config, seed=seed, artifacts=[artifact])

    def letter(self, request: Record, reason: str, first_offset: int | None = None) -> None:
        headers = dead_letter_headers(reason, "why", "k.requests", request.partition, request.offset, first_offset)
        place = len(self.dead_letters)
        self.dead_letters.append(Record("k.dead-letters", 0, place, request.key, request.value, headers))


def picture(colour: int) -> bytes:
    out = BytesIO()
    Image.new("RGB", (8, 8), (colour, 0, 0)).save(out, "PNG")
    return out.getvalue()


def sound_story() -> Story:
    """Two twins drawn, one of them from a record gone astray; one expired; one over quota; a repeat, a conflict and
    garbage; one piece of work produced twice."""
    story = Story()
    first = story.ask("one", seed=5)
    decision = story.decide(first, "accepted")
    work = story.emit(decision)
    story.emit(decision)
    story.draw(decision, work, seed=5)
    story.append(first.value, story.sent[0].meaning)

    stray_body = {
        "tenant": TENANT, "request_id": "two", "prompt": "a fox", "config": {"name": "sketch"}, "seed": 5,
    }  # fmt: skip
    stray_bytes = json.dumps(stray_body).encode()
    meaning = Meaning((TENANT, "two"), 0, _RUNS, stray_body)
    story.append(stray_bytes, meaning, partition=1 - HOME)
    second = story.append(stray_bytes, meaning, copy=True)
    decision = story.decide(second, "accepted")
    story.draw(decision, story.emit(decision), seed=5)

    late = story.ask("late", deadline="2030-01-01T00:00:00+00:00")
    decision = story.decide(late, "accepted")
    expired = {"status": "expired", "finished_at": "2030-01-01T00:00:01Z", "deadline": "2030-01-01T00:00:00Z"}
    story.settle(decision, story.emit(decision), **expired)

    story.letter(story.ask("one", payload=1), "conflicting_duplicate", first.offset)
    story.letter(story.append(b"{oops", Meaning(None)), "malformed")

    decision = story.decide(story.ask("three"), "accepted")
    story.draw(decision, story.emit(decision), seed=0, colour=9)
    story.decide(story.ask("four"), "rejected", "rate_limited")
    story.tenants = story.accounts()
    return story
