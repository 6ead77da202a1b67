"""Usage: who counts under which name, and that each account counts once."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from schemas.codec import encode
from schemas.tenancy import CURSOR_KEY, Cursor, TenantRecord, UsageRecord, job_key
from schemas.tenants import Quota, Tenants
from streams.metrics import AdmissionMetrics
from streams.usage import Bill, UsageCounts
from tests.unit.admission.scene import TENANT, Partition, accepted, decided, failed, make_world, request

BIRTH, OTHER = UUID(int=1), UUID(int=2)


def tenants(key: bytes, value: bytes | None, partition: int = 0) -> Any:
    return SimpleNamespace(key=key, value=value, partition=partition)


def cursor(birth: UUID = BIRTH, partition: int = 0) -> Any:
    value = Cursor(birth=birth, next=0, emitted_through=0, clock_ms=0, results_next=0)
    return tenants(CURSOR_KEY, encode(value), partition)


def account(name: str, since: int, partition: int = 0, **counts: Any) -> Any:
    return tenants(name.encode(), encode(TenantRecord(tokens=1, as_of_ms=0, since=since, **counts)), partition)


def left(name: str, since: int, birth: UUID = BIRTH, **counts: Any) -> Any:
    tenant, _, key = name.partition("/")
    record = UsageRecord(tenant=tenant, key=key or None, birth=birth, since=since, until_ms=0, **counts)
    return tenants(name.encode(), encode(record))


def bill(of_tenants: list[Any], of_usage: list[Any]) -> dict[tuple[str, str | None], tuple[int, float]]:
    made = Bill()
    for record in of_tenants:
        made.fold_tenants(record)
    for record in of_usage:
        made.fold_usage(record)
    assert made.usages() == made.usages()
    return {(each.tenant, each.key): (each.accepted, each.gpu_seconds) for each in made.usages()}


def test_the_newest_of_each_account_counts_and_what_is_no_account_does_not() -> None:
    records = [cursor(), account("a", 1, accepted=1), tenants(job_key("j"), b"{}"), account("a/k", 2, accepted=2)]
    assert bill([*records, account("a", 1, accepted=3)], []) == {("a", None): (3, 0.0), ("a", "k"): (2, 0.0)}


def test_one_who_left_and_came_back_counts_twice() -> None:
    records = [cursor(), account("a", 1, accepted=1), tenants(b"a", None), account("a", 9, accepted=4)]
    assert bill(records, [left("a", 1, accepted=1, gpu_seconds=0.5)]) == {("a", None): (5, 0.5)}


def test_one_who_left_while_we_read_counts_once_as_it_was_at_last() -> None:
    records = [cursor(), account("a", 1, accepted=1), account("a/k", 1, accepted=1)]
    assert bill(records, [left("a", 1, accepted=2)]) == {("a", None): (2, 0.0), ("a", "k"): (1, 0.0)}


def test_a_number_of_another_birth_is_another_account() -> None:
    records = [cursor(OTHER), account("a", 1, accepted=1)]
    assert bill(records, [left("a", 1, accepted=2)]) == {("a", None): (3, 0.0)}


def test_a_tenant_of_several_partitions_is_one() -> None:
    records = [cursor(), account("a", 1, accepted=1), cursor(OTHER, 1), account("a", 1, 1, accepted=2)]
    assert bill(records, []) == {("a", None): (3, 0.0)}


def test_tenants_that_are_not_declared_share_a_label() -> None:
    metrics, usage = AdmissionMetrics(), UsageCounts()
    declared = Tenants(default=Quota(per_second=1, burst=9), tenants={TENANT: Quota(per_second=1, burst=9)})
    partition = Partition(make_world(tenants=declared))
    for tenant in (TENANT, "ivan"):
        verdict = partition.send(request("a", tenant=tenant))
        decision = decided(verdict)
        usage.decided(decision.tenant, decision.verdict, 1, declared)
        result = failed(partition.state, accepted(verdict).job_id, 2.5)
        job = partition.state.fold_result(result, partition.results_end)
        partition.results_end += 1
        assert job is not None
        usage.ended(job, result, declared)
    usage.count_into(metrics)
    for tenant in (TENANT, "other"):
        for name, value, labels in (
            ("decisions_total", 1.0, {"verdict": "accepted"}),
            ("jobs_total", 1.0, {"status": "failed"}),
            ("gpu_seconds_total", 2.5, {}),
        ):
            sample = metrics.registry.get_sample_value(f"kiln_admission_tenant_{name}", {"tenant": tenant, **labels})
            assert sample == value
