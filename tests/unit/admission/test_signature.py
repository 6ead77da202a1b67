"""Who may speak for a tenant that signs: nobody but who has its key, and each word once."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from admission.arrival import Arrival
from admission.decide import decide
from admission.verdict import DeadLetter, Repeat, SendHome, TakeBack
from admission.world import World
from schemas.names import request_name
from schemas.signature import HEADER_SIGNATURE, SigningKey
from schemas.tenants import Quota, Tenants
from tests.unit.admission.scene import (
    HOME,
    NOW_MS,
    TENANT,
    Partition,
    accepted,
    arrival,
    dead,
    decided,
    make_world,
    rejected,
    request,
)

KEY = SigningKey("new", b"a secret of alice's")
OLD = SigningKey("old", b"an older one of hers")
IVANS = SigningKey("new", b"another's, ivan's own")
QUOTA = Quota(per_second=1.0, burst=5.0)
TOLERANCE_MS = 900_000


def world_of(*, signed: bool = True, **limits: Any) -> World:
    tenants = Tenants(tenants={TENANT: QUOTA.model_copy(update={"signed": signed}), "ivan": QUOTA})
    secrets = {TENANT: {each.key_id: each.secret for each in (KEY, OLD)}, "ivan": {IVANS.key_id: IVANS.secret}}
    return replace(make_world(tenants=tenants, **limits), secrets=secrets)


def send(
    partition: Partition,
    value: bytes,
    key: SigningKey | None = KEY,
    *,
    at_ms: int = NOW_MS,
    signed_ms: int | None = None,
    deployment: str = "kiln",
    record_key: bytes | None = None,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> Any:
    at = at_ms if signed_ms is None else signed_ms
    signature = [] if key is None else [(HEADER_SIGNATURE, key.sign(value, deployment, at))]
    return partition.send(value, at_ms=at_ms, key=record_key, headers=[*signature, *headers])


def body(request_id: str = "r1", **changes: Any) -> bytes:
    return json.dumps(request(request_id, **changes)).encode()


@pytest.fixture
def partition() -> Partition:
    return Partition(world_of())


def test_a_signed_request_enters_by_any_of_the_tenants_keys(partition: Partition) -> None:
    assert accepted(send(partition, body("r1"), KEY)).request_id == "r1"
    assert accepted(send(partition, body("r2"), OLD)).request_id == "r2"


@pytest.mark.parametrize("key", [None, IVANS, SigningKey("unknown", KEY.secret), SigningKey("old", KEY.secret)])
def test_without_the_tenants_key_it_is_no_event_of_the_tenant_and_its_id_stays_free(
    partition: Partition, key: SigningKey | None
) -> None:
    verdict = dead(send(partition, body("r1"), key))
    assert verdict.reason == "unproven"
    assert partition.decisions == []
    assert partition.state.account(TENANT) is None  # nothing is counted, nothing charged
    assert accepted(send(partition, body("r1", prompt="what alice wants"), KEY)).prompt == "what alice wants"


def test_a_name_beside_a_flaw_is_not_believed_without_a_signature_either(partition: Partition) -> None:
    flawed = body("r1")[:-1] + b', "seed": NaN}'
    assert dead(send(partition, flawed, None)).reason == "unproven"
    assert rejected(send(partition, flawed, KEY)).code == "invalid_request"


def test_another_value_time_or_deployment_does_not_fit_the_signature(partition: Partition) -> None:
    stolen = KEY.sign(body("r1"), "kiln", NOW_MS)
    for value, header in (
        (body("r2"), stolen),
        (body("r1"), stolen.replace(str(NOW_MS).encode(), str(NOW_MS + 1).encode())),
        (body("r1"), KEY.sign(body("r1"), "kiln-test", NOW_MS)),
    ):
        verdict = dead(partition.send(value, headers=[(HEADER_SIGNATURE, header)]))
        assert verdict.reason == "unproven"
        assert "byte for byte" in verdict.message


@pytest.mark.parametrize("said", [[], [None], [b""], [b"v1 new 1 00"], [b"twice", b"twice"]])
def test_a_signature_of_another_form_is_said(partition: Partition, said: list[bytes | None]) -> None:
    verdict = dead(partition.send(body(), headers=[(HEADER_SIGNATURE, each) for each in said]))
    assert verdict.reason == "unproven"
    assert HEADER_SIGNATURE in verdict.message


def test_two_signatures_are_none_even_if_one_is_right(partition: Partition) -> None:
    right = (HEADER_SIGNATURE, KEY.sign(body(), "kiln", NOW_MS))
    assert dead(partition.send(body(), headers=[right, right])).reason == "unproven"


@pytest.mark.parametrize("off_ms", [-TOLERANCE_MS, TOLERANCE_MS])
def test_the_time_that_was_signed_is_near_the_one_at_which_it_was_appended(partition: Partition, off_ms: int) -> None:
    beyond = off_ms + (1 if off_ms > 0 else -1)
    assert "900 s are allowed" in dead(send(partition, body("r1"), signed_ms=NOW_MS + beyond)).message
    accepted(send(partition, body("r1"), signed_ms=NOW_MS + off_ms))


def test_a_time_in_seconds_is_asked_for_in_milliseconds(partition: Partition) -> None:
    verdict = dead(send(partition, body(), signed_ms=NOW_MS // 1000))
    assert verdict.message.endswith("; write Unix milliseconds, and sign again")
    verdict = dead(send(partition, body(), signed_ms=NOW_MS - 86_400_000))
    assert verdict.message.endswith("; set the clock, and sign again")


@pytest.mark.parametrize("window_seconds", [1, 60, 3600])
@pytest.mark.parametrize("ahead", [-1, 0, 1])
def test_a_record_that_is_sent_again_is_a_repeat_or_comes_too_late(window_seconds: int, ahead: int) -> None:
    partition = Partition(world_of(dedupe_window_seconds=window_seconds))
    tolerance_ms = partition.world.limits.signature_tolerance_ms
    signed_ms = NOW_MS + ahead * tolerance_ms
    accepted(send(partition, body(), at_ms=NOW_MS, signed_ms=signed_ms))
    (job,) = partition.state.outstanding
    partition.finish(job)  # or the job itself would hold the name
    seen: set[str] = set()
    for later_ms in sorted(
        {0, 1, window_seconds * 1000, *(tolerance_ms * n + d for n in (0, 1, 2, 3) for d in (-1, 0, 1))}
    ):
        if later_ms >= 0:
            verdict = send(partition, body(), at_ms=NOW_MS + later_ms, signed_ms=signed_ms)
            assert isinstance(verdict, Repeat) or dead(verdict).reason == "unproven", later_ms
            seen.add(type(verdict).__name__)
    assert seen == {"Repeat", "DeadLetter"}


def test_a_clock_that_steps_back_does_not_let_an_old_record_in(partition: Partition) -> None:
    accepted(send(partition, body("r1")))
    (job,) = partition.state.outstanding
    partition.finish(job)
    accepted(send(partition, body("r2"), at_ms=NOW_MS + 3_600_000))  # by now the name r1 is over
    assert dead(send(partition, body("r1"), at_ms=NOW_MS + 1, signed_ms=NOW_MS)).reason == "unproven"


def test_a_clock_that_steps_back_gives_no_record_two_lives(partition: Partition) -> None:
    """A name is over by the time at which its record was appended, so the signed time may not be far after that."""
    accepted(send(partition, body("r1")))
    back_ms = NOW_MS - partition.world.limits.dedupe_window_seconds * 1000
    assert dead(send(partition, body("r2"), at_ms=back_ms, signed_ms=NOW_MS)).reason == "unproven"


def test_a_time_that_is_not_believed_proves_nothing(partition: Partition) -> None:
    """A broker whose clock is ahead: whoever kept the record could send it again when its time has come."""
    then_ms = NOW_MS + 3_600_000
    signature = (HEADER_SIGNATURE, KEY.sign(body(), "kiln", then_ms))
    record = arrival(body(), 0, at_ms=then_ms, headers=[signature])
    assert dead(decide(record, partition.state, partition.world, NOW_MS)).reason == "unproven"


def test_what_a_signature_does_not_cover_ends_nothing_in_the_tenants_name(partition: Partition) -> None:
    changes: list[dict[str, Any]] = [
        {"record_key": b"bob"},
        {"headers": [("h", b"")] * 33},
        {"headers": [("h", b"x" * 17_000)]},
    ]
    for change in changes:
        verdict = dead(send(partition, body("r1"), **change))
        assert verdict.reason == "unproven"
    accepted(send(partition, body("r1"), record_key=TENANT.encode(), headers=[("trace", b"1")]))


def test_a_tenant_that_need_not_sign_is_held_to_a_signature_that_it_gives() -> None:
    partition = Partition(world_of(signed=False))
    accepted(send(partition, body("r1"), None))
    accepted(send(partition, body("r2"), KEY))
    assert dead(send(partition, body("r3"), IVANS)).reason == "unproven"
    partition.world = replace(partition.world, secrets={})
    accepted(send(partition, body("r3"), IVANS))  # nobody here can tell


def test_a_default_quota_that_asks_for_signatures_asks_strangers_too() -> None:
    partition = Partition(
        replace(world_of(), tenants=Tenants(default=QUOTA.model_copy(update={"signed": True}))),
    )
    assert dead(partition.send(request("r1", tenant="ivan"))).reason == "unproven"
    accepted(send(partition, body("r1", tenant="ivan"), IVANS))


def test_a_tenant_that_is_unknown_is_refused_as_such(partition: Partition) -> None:
    assert rejected(partition.send(request("r1", tenant="nobody-11"))).code == "unknown_tenant"


def test_it_goes_home_only_when_it_is_proven(partition: Partition) -> None:
    def on_another(headers: Sequence[tuple[str, bytes]]) -> Arrival:
        return arrival(body(), partition.state.next, partition=HOME + 1, headers=headers)

    assert isinstance(partition.decide(on_another([])), DeadLetter)
    home = partition.decide(on_another([(HEADER_SIGNATURE, KEY.sign(body(), "kiln", NOW_MS))]))
    assert isinstance(home, SendHome)


def test_a_repeat_may_be_signed_anew(partition: Partition) -> None:
    first = decided(send(partition, body("r1")))
    again = send(partition, body("r1"), OLD, at_ms=NOW_MS + 1_800_000)
    assert isinstance(again, Repeat)
    assert again.job_id == first.job_id


def test_secrets_are_not_shown(partition: Partition) -> None:
    assert "a secret of" not in repr(partition.world)


def test_a_tenant_that_signs_its_requests_signs_its_cancels(partition: Partition) -> None:
    accepted(send(partition, body()))
    cancel = json.dumps({"tenant": TENANT, "request_id": "r1", "cancel": True}).encode()
    for stranger in (None, IVANS):
        assert dead(send(partition, cancel, stranger)).reason == "unproven"
    assert send(partition, cancel) == TakeBack(request_name(TENANT, "r1"), NOW_MS)
