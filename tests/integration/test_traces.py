"""One trace from a request to its result, through a real broker."""

from confluent_kafka import Producer

from schemas.result import parse_result
from schemas.topics import Catalogue
from schemas.trace import ADMISSION, HEADER_TRACE, SETTLE, TraceContext, span_id_of, trace_id_of, trace_of
from streams.kafka.settings import KafkaSettings
from tests.admission import committed, request, running, small_world, work_of
from tests.integration.gpu_pool import GpuPool
from tests.spans import Spans, ids

TENANT = "atelier"
CAME = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", sampled=True)
SENT = {"brought": CAME.header().encode(), "begun": None, "malformed": b"00-no-trace-01"}


def send(kafka: KafkaSettings, catalogue: Catalogue) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"})
    for name, trace in SENT.items():
        headers = [] if trace is None else [(HEADER_TRACE, trace)]
        producer.produce(catalogue.requests, request(TENANT, name, "a secret"), TENANT.encode(), headers=headers)
    assert producer.flush(30) == 0


async def test_a_trace_leads_from_the_request_to_whoever_reads_its_result(
    kafka: KafkaSettings, catalogue: Catalogue, pool: GpuPool
) -> None:
    spans = Spans()
    send(kafka, catalogue)
    async with (
        running(kafka, small_world(catalogue), "plain", spans.tracing("admission")),
        pool.consumer(tracing=spans.tracing("gpu")),
    ):
        await pool.wait_for_results(len(SENT))
    # Both services have ended: what they had to tell is told.
    results = committed(kafka, catalogue.results, catalogue.requests_partitions)
    jobs = {result.request_id: result.job_id for result in (parse_result(each.value or b"") for each in results)}
    expected = {name: trace_id_of(job_id) for name, job_id in jobs.items()} | {"brought": CAME.trace_id}
    for each in results:
        result = parse_result(each.value or b"")
        trace_id = expected[result.request_id]
        assert trace_of(each.headers) == TraceContext(trace_id, span_id_of(result.job_id, SETTLE), sampled=True)
    for _, work in work_of(kafka, catalogue):
        job_id = (work.key or b"").decode()
        name = next(name for name, job in jobs.items() if job == job_id)
        assert trace_of(work.headers) == TraceContext(expected[name], span_id_of(job_id, ADMISSION), sampled=True)

    for name, trace_id in expected.items():
        of_trace = {span.name: ids(span) for span in spans.all() if ids(span)[0] == trace_id}
        assert of_trace.keys() == {ADMISSION, "queue", "picture", "slot", "finish", "store", SETTLE}
        _, door, parent = of_trace[ADMISSION]
        assert parent == (CAME.span_id if name == "brought" else None)
        assert {of_trace[child][2] for child in ("queue", "picture", "store", SETTLE)} == {door}
        assert {of_trace[child][2] for child in ("slot", "finish")} == {of_trace["picture"][1]}
    assert "secret" not in "".join(span.to_json() for span in spans.all())
