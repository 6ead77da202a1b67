import uuid

import pytest
from pydantic import TypeAdapter, ValidationError

from schemas.names import RequestId, Tenant, job_id, seed_of
from schemas.request import SEED_MAX

BIRTH = uuid.UUID("6d1c4c3a-5f0e-4f53-9a53-0c8f4a3b2d11")


@pytest.mark.parametrize("tenant", ["a", "A.b_c-9", "x" * 64])
def test_a_tenant_may_be_a_topic_like_name(tenant: str) -> None:
    assert TypeAdapter(Tenant).validate_python(tenant) == tenant


@pytest.mark.parametrize("tenant", ["", "a/b", "a b", "é", "a\n", "a\0", "x" * 65, "../b"])
def test_a_tenant_may_be_nothing_else(tenant: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Tenant).validate_python(tenant)


@pytest.mark.parametrize("request_id", ["", "a\0", "a\n", "\x7f", "x" * 129])
def test_a_request_id_has_no_control_characters_and_an_end(request_id: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(RequestId).validate_python(request_id)


def test_a_job_differs_by_birth_name_partition_and_offset() -> None:
    first = job_id(BIRTH, "alice", "r1", 1, 7)
    assert first == str(uuid.uuid5(BIRTH, "alice/r1/1/7"))
    assert first == job_id(BIRTH, "alice", "r1", 1, 7)
    others = [
        job_id(uuid.UUID(int=7), "alice", "r1", 1, 7),
        job_id(BIRTH, "ivan", "r1", 1, 7),
        job_id(BIRTH, "alice", "r2", 1, 7),
        job_id(BIRTH, "alice", "r1", 2, 7),
        job_id(BIRTH, "alice", "r1", 1, 8),
    ]
    assert len({first, *others}) == 6


def test_a_job_is_a_uuid_of_version_5() -> None:
    for offset in range(200):  # each variant digit many times
        assert job_id(BIRTH, "alice", "ré", 3, offset) == str(uuid.uuid5(BIRTH, f"alice/ré/3/{offset}"))


def test_a_drawn_seed_is_exact_in_every_json_reader() -> None:
    seeds = {seed_of(job_id(BIRTH, "alice", "r1", 1, offset)) for offset in range(500)}
    assert len(seeds) == 500
    assert all(0 <= seed <= SEED_MAX for seed in seeds)
    assert seed_of(str(uuid.UUID(int=2**128 - 1))) == SEED_MAX
