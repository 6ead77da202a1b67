"""A batch of requests as one transaction: decided one after the other, each seeing what the former ones changed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from aiokafka import TopicPartition

from admission.arrival import Arrival
from admission.decide import decide
from admission.state import State
from admission.verdict import DeadLetter, Decided, Repeat, SendHome, TakeBack
from admission.world import World
from schemas.cancel import Cancel
from schemas.codec import encode, sha256_hex
from schemas.composed import decision_record
from schemas.config import GenerationConfig
from schemas.dead_letter import dead_letter_headers
from schemas.decision import Decision
from schemas.signature import HEADER_SIGNATURE
from schemas.tenants import Tenants
from schemas.topics import RECORD_BYTES_MAX, REQUEST_BYTES_MAX, Catalogue
from streams.entering import Entered, enter, trace_headers
from streams.kafka.batches import HEADER_UNREADABLE
from streams.kafka.lease import Transaction
from streams.kafka.sending import Output
from streams.metrics import AdmissionMetrics
from streams.results import Result
from streams.tracing import OFF, Tracing
from streams.usage import UsageCounts

HEADER_HOME = "kiln-home"
HEADER_TRUNCATED = "kiln-truncated"

_CANCEL = encode(Cancel(by="tenant"))

# A batch on the wire, and our own headers, need room beside key, value and headers.
_OVERHEAD_BYTES = 4096
_DEAD_LETTER_BYTES_MAX = RECORD_BYTES_MAX - _OVERHEAD_BYTES
_HOME_BYTES_MAX = REQUEST_BYTES_MAX - _OVERHEAD_BYTES


@dataclass(slots=True)
class Batch:
    """One transaction in the making, what is to be emitted after it, and what is counted once it is committed.

    Results are folded first, then arrivals decided, then it is closed. All of that changes `state`, which is worthless
    as a whole where the transaction comes to nothing.
    """

    state: State
    world: World
    now_ms: int
    tracing: Tracing = OFF
    arrivals: int = 0
    outputs: list[Output] = field(default_factory=list)
    accepted: list[Decision] = field(default_factory=list)
    taken: dict[str, tuple[GenerationConfig, float]] = field(default_factory=dict)  # config hash -> GPU-seconds in all
    degraded: Counter[str] = field(default_factory=Counter)  # by what was asked for
    decided: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # by tenant, verdict and code
    dead: Counter[str] = field(default_factory=Counter)
    sent_home: int = 0
    repeats: int = 0
    taken_back: Counter[str] = field(default_factory=Counter)
    results: int = 0
    usage: UsageCounts = field(default_factory=UsageCounts)
    traced: list[Entered] = field(default_factory=list)

    def fold(self, results: Iterable[tuple[int, Result | None]], *, whole: bool) -> None:
        """End the jobs of `results`. `whole`: there are no others by now."""
        self.results += fold_results(results, self.state, self.world.tenants, self.usage)
        self.state.see_results(whole=whole, now_ms=self.now_ms)

    def decide(self, arrivals: Sequence[Arrival]) -> None:
        """One after the other, each seeing what the former ones changed."""
        self.arrivals += len(arrivals)
        state, world, now_ms = self.state, self.world, self.now_ms
        for arrival in arrivals:
            verdict = (arrival.headers and _unreadable(arrival, state, now_ms)) or decide(arrival, state, world, now_ms)
            if isinstance(verdict, Decided):
                if arrival.headers or self.tracing.on:
                    self.traced += enter(verdict.decision, arrival.headers, self.tracing)
                self._log(verdict, arrival.partition)
            else:
                self._pass_on(arrival, verdict)
            state.apply(arrival, verdict)

    def close(self) -> Transaction:
        """All that was decided and everything that changed with it."""
        for (tenant, verdict, _), number in self.decided.items():
            self.usage.decided(tenant, verdict, number, self.world.tenants)
        return progress(self.state, self.world.catalogue, self.outputs)

    def _log(self, verdict: Decided, partition: int) -> None:
        """A decision of the requests partition."""
        decision, catalogue = verdict.decision, self.world.catalogue
        record, headers = decision_record(decision), decision.headers()
        self.outputs.append(Output(catalogue.decisions, partition, verdict.name, record, headers))
        if verdict.result is not None:
            key, headers = decision.tenant.encode(), trace_headers(decision)
            self.outputs.append(Output(catalogue.results, partition, key, encode(verdict.result), headers))
        if decision.work is not None:
            self.accepted.append(decision)
        if verdict.config is not None:
            config, price = verdict.config, decision.price_gpu_seconds
            _, before = self.taken.get(config.config_hash, (config, 0.0))
            self.taken[config.config_hash] = config, before + price
        if verdict.degraded_from is not None:
            self.degraded[verdict.degraded_from] += 1
        self.decided[decision.tenant, decision.verdict, decision.code or ""] += 1

    def _pass_on(self, arrival: Arrival, verdict: DeadLetter | Repeat | SendHome | TakeBack) -> None:
        """What makes no decision."""
        catalogue = self.world.catalogue
        match verdict:
            case SendHome(partition=home):
                self.outputs.append(sent_home(arrival, home, catalogue))
                self.sent_home += 1
            case DeadLetter():
                self.outputs.append(dead_letter(arrival, verdict, catalogue))
                self.dead[verdict.reason] += 1
            case Repeat():
                self.repeats += 1
            case TakeBack(name=name):
                if name is not None:
                    self.outputs.append(Output(catalogue.cancels, 0, name, _CANCEL))
                self.taken_back["written" if name is not None else "nothing"] += 1

    def count_into(self, metrics: AdmissionMetrics) -> None:
        for (_, verdict, code), number in self.decided.items():
            metrics.count("decisions_total", number, verdict=verdict, code=code)
        for reason, number in self.dead.items():
            metrics.count("dead_letters_total", number, reason=reason)
        for config, number in self.degraded.items():
            metrics.count("degraded_total", number, config=config)
        metrics.count("sent_home_total", self.sent_home)
        metrics.count("repeats_total", self.repeats)
        for outcome, number in self.taken_back.items():
            metrics.count("cancels_total", number, outcome=outcome)
        metrics.count("results_folded_total", self.results)
        self.usage.count_into(metrics)


def fold_results(
    results: Iterable[tuple[int, Result | None]], state: State, tenants: Tenants, usage: UsageCounts
) -> int:
    """End the jobs of `results`, at their offsets. Returns how many were read."""
    number = 0
    for offset, ending in results:
        job = state.fold_result(ending, offset)
        if job is not None and ending is not None:
            usage.ended(job, ending, tenants)
        number += 1
    return number


def why_unreadable(arrival: Arrival) -> str | None:
    """Why a record is not what its producer meant; then nothing of it is believed, its name included."""
    if not arrival.headers:
        return None
    why = next((value or b"" for name, value in arrival.headers if name == HEADER_UNREADABLE), None)
    return None if why is None else why.decode("utf-8", "replace")


def _unreadable(arrival: Arrival, state: State, now_ms: int) -> DeadLetter | None:
    why = why_unreadable(arrival)
    return (
        None if why is None else DeadLetter("malformed", why, clock_ms=state.clock_after(arrival.appended_ms, now_ms))
    )


def progress(state: State, catalogue: Catalogue, outputs: Sequence[Output] = ()) -> Transaction:
    """`outputs`, what changed of the tenants with the cursor, who left, and the input offset: always together."""
    at = state.partition
    changes = [Output(catalogue.tenants, at, key, value) for key, value in state.drain_changes()]
    left = [Output(catalogue.usage, at, key, value) for key, value in state.drain_left()]
    offsets = {TopicPartition(catalogue.requests, at): state.next}
    return Transaction(outputs=(*outputs, *changes, *left), offsets=offsets)


def sent_home(arrival: Arrival, home: int, catalogue: Catalogue) -> Output:
    """The request as it came, on its tenant's partition; a header tells a person how it got there. What would not fit
    there any more is dead-lettered, or it would stop this partition for ever."""
    source = f"{arrival.partition}/{arrival.offset}".encode()
    output = forwarded(arrival, home, (HEADER_HOME, source), catalogue)
    if output is None:
        message = f"a record of {arrival.record_bytes} bytes cannot be sent to its home partition {home}; key by tenant"
        return dead_letter(arrival, DeadLetter("malformed", message), catalogue)
    return output


def forwarded(arrival: Arrival, home: int, mark: tuple[str, bytes], catalogue: Catalogue) -> Output | None:
    """The request as it came with one header more, on a partition of requests. Where all of it has no room its headers
    are left out but for the signature; None: even then it has none."""
    headers = _readable(arrival)
    if arrival.wire_bytes > _HOME_BYTES_MAX:
        headers = tuple(header for header in headers if header[0] == HEADER_SIGNATURE)[:1]
    size = sum(map(len, (arrival.key or b"", arrival.value or b"", *(value for _, value in headers))))
    if size > _HOME_BYTES_MAX:
        return None
    return Output(catalogue.requests, home, arrival.key, arrival.value, (*headers, mark))


def dead_letter(arrival: Arrival, verdict: DeadLetter, catalogue: Catalogue, topic: str | None = None) -> Output:
    """The original key, value and headers beside the reason; `topic` is where it stood, if not in requests.

    A compressed record may unfold to more than a topic takes: of such a one the beginning is kept, with its length and
    digest."""
    stood = (topic or catalogue.requests, arrival.partition, arrival.offset)
    reason = dead_letter_headers(verdict.reason, verdict.message, *stood, verdict.first_offset)
    key, value, headers = arrival.key, arrival.value, _readable(arrival)
    if key is None and value is None:
        value = b""  # a client refuses to send a record with neither a key nor a value
    if arrival.wire_bytes > _DEAD_LETTER_BYTES_MAX:
        whole = f"key {len(key or b'')} bytes, value {len(value or b'')} bytes, sha256 {sha256_hex(value or b'')}"
        key = None if key is None else key[:_OVERHEAD_BYTES]
        value = None if value is None else value[: _DEAD_LETTER_BYTES_MAX - 2 * _OVERHEAD_BYTES]
        headers = ((HEADER_TRUNCATED, whole.encode()),)
    return Output(catalogue.dead_letters, 0, key, value, (*headers, *reason))


def _readable(arrival: Arrival) -> tuple[tuple[str, bytes], ...]:
    """The record's headers; a null value becomes an empty one, which is all that clients agree on."""
    return tuple((name, value or b"") for name, value in arrival.headers)
