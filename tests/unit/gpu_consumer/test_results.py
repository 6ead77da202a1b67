"""Results from what a job's pictures cost."""

from datetime import timedelta

from gpu_consumer import results
from gpu_consumer.engine.protocol import DeviceInfo, Picture, Ready, Share
from gpu_consumer.intake import Names
from gpu_consumer.store.outcomes import StoredArtifact
from schemas.codec import encode
from schemas.cost import Price
from schemas.result import parse_result
from tests.unit.gpu_consumer.work import EPOCH, work_item

PRICE = Price("a", 3.0)
RAN_ON = results.environment(Ready(DeviceInfo("a card", "GPU-1", 1 << 30), {"torch": "2"}))


def share(peak: int, batch_size: int, bucket: int = 4) -> Share:
    timings = {"denoise": 2.0, "text": 0.5}
    return Share(timings, gpu_seconds=0.75, peak_vram_bytes=peak, batch_size=batch_size, bucket=bucket)


def picture(n: int, bucket: int = 4) -> Picture:
    return Picture(f"k/{n}", b"x", "image/png", "png", 64, 48, bucket, frames=2, duration_seconds=0.25, warnings=("w",))


def test_a_success_says_what_was_made_and_how() -> None:
    item = work_item("a", images=2, retry_of="b", metadata={"k": "v"})
    run = results.Run(attempt=2)
    run.add(share(1, batch_size=4))
    run.add(share(2, batch_size=2, bucket=2))
    stored = [StoredArtifact(f"file:///{n}", "0" * 64, 10 + n) for n in range(2)]
    made = results.succeeded(item, {1: picture(1), 0: picture(0, bucket=2)}, stored, run, RAN_ON, PRICE, EPOCH)
    assert parse_result(encode(made)) == made
    assert [(each.uri, each.seed, each.bytes) for each in made.artifacts] == [
        ("file:///0", 7, 10),
        ("file:///1", 8, 11),
    ]
    assert (made.artifacts[0].frames, made.artifacts[0].duration_seconds, made.artifacts[0].warnings) == (
        2,
        0.25,
        ("w",),
    )
    assert (made.gpu_seconds, made.cost_usd, made.pool) == (1.5, 0.00125, "a")
    assert made.timings == {"denoise": 4.0, "text": 1.0}
    assert (made.batch_size, made.bucket, made.peak_vram_bytes, made.attempt) == (2, 2, 2, 2)
    assert (made.config.hash, made.environment.device_uuid) == (item.config_hash, "GPU-1")
    assert (made.retry_of, made.metadata, made.seed) == ("b", {"k": "v"}, 7)


def test_a_failure_says_why() -> None:
    made = results.failed(work_item("a"), "blank_output", "one colour", results.Run(), RAN_ON, PRICE, EPOCH)
    assert parse_result(encode(made)) == made
    assert (made.status, made.code, made.attempt) == ("failed", "blank_output", 1)


def test_what_ran_in_place_of_another_says_so() -> None:
    item = work_item("a").model_copy(update={"degraded_from": "dear@2"})
    stored = [StoredArtifact("file:///0", "0" * 64, 10)]
    for made in (
        results.succeeded(item, {0: picture(0)}, stored, results.Run(), RAN_ON, PRICE, EPOCH),
        results.failed(item, "blank_output", "one colour", results.Run(), RAN_ON, PRICE, EPOCH),
    ):
        assert (made.config.name, made.degraded_from) == (item.config.name, "dear@2")
        assert parse_result(encode(made)) == made


def test_an_expiry_needs_only_names() -> None:
    names = Names(tenant="blue", request_id="a", results_partition=3)
    deadline_ms = int((EPOCH + timedelta(seconds=1)).timestamp() * 1000)
    made = results.expired(work_item("a").job_id, names, None, deadline_ms, "late", 0.5, PRICE, EPOCH)
    assert parse_result(encode(made)) == made
    assert made.deadline == EPOCH + timedelta(seconds=1)
    assert (made.cost_usd, made.config) == (0.000417, None)


def test_a_cancel_needs_only_names_and_says_what_was_spent() -> None:
    names = Names(tenant="blue", request_id="a", results_partition=3, metadata={"k": "v"})
    made = results.cancelled(work_item("a").job_id, names, None, "cancelled while it ran", 0.5, PRICE, EPOCH)
    assert parse_result(encode(made)) == made
    assert (made.status, made.gpu_seconds, made.metadata) == ("cancelled", 0.5, {"k": "v"})


def test_what_ran_of_a_job_that_was_taken_back_is_charged_to_its_config() -> None:
    item = work_item("a")
    names = Names.model_validate(item, from_attributes=True)
    gone = results.cancelled(item.job_id, names, item, "cancelled while it ran", 0.5, PRICE, EPOCH)
    late = results.expired(item.job_id, names, item, 1_000, "late", 0.5, PRICE, EPOCH)
    for made in (gone, late):
        assert made.config is not None
        assert (made.config.hash, made.cost_usd, made.pool) == (item.config_hash, 0.000417, "a")
