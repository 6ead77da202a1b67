"""Quix Streams in its exactly-once mode. Names, buckets and running jobs stand in its own state, with a changelog.

    python -m tests.benchmarks.admission.apps.quix COMMIT_SECONDS

One transaction a commit: work, changelog and input offsets.
"""

import sys
from typing import Any

from quixstreams import Application, State, message_context
from quixstreams.models import SerializationContext, Serializer

from tests.benchmarks.admission.apps.door import BOOTSTRAP, FOLDER, Door, Work

door = Door()


class WorkBytes(Serializer):
    def __call__(self, value: Work, ctx: SerializationContext) -> bytes:
        return value.value


def admit(value: bytes, key: bytes, timestamp: int, headers: Any, state: State) -> Work:
    """The state is the tenant's, for it is kept by the record's key. What stands in it is what a restart must know."""
    del headers
    context = message_context()
    work = door.admit(context.partition, context.offset, timestamp, key, value)
    decision = work.decision
    name = f"name/{decision.request_id}"
    if state.get(name) is not None:
        raise ValueError(f"{name} came twice")
    state.set(name, [decision.payload_digest, decision.job_id])
    state.set("bucket", [decision.bucket_after, decision.appended_ms])
    state.set(f"job/{decision.job_id}", [decision.price_gpu_seconds, decision.deadline_ms])
    return work


def main(commit_seconds: float) -> None:
    app = Application(
        broker_address=BOOTSTRAP,
        consumer_group=door.group,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=commit_seconds,
        consumer_poll_timeout=0.05,
        state_dir=FOLDER / "quix",
        loglevel="WARNING",
    )
    requests = app.topic(door.catalogue.requests, key_deserializer="bytes", value_deserializer="bytes")
    topics = {name: app.topic(name, key_serializer="bytes", value_serializer=WorkBytes()) for name in door.work_topics}
    frame = app.dataframe(requests).apply(admit, stateful=True, metadata=True)
    frame = frame.set_headers(lambda work, *_: list(work.headers))
    # Its key finds the partition: nobody is let choose one.
    frame.to_topic(lambda work, *_: topics[work.topic], key=lambda work: work.key)
    app.run()


if __name__ == "__main__":
    main(float(sys.argv[1]))
