"""What `kiln quote` says of an answer."""

from dataclasses import replace

import pytest

from admission.wait import Wait
from schemas.tenants import Quota, Rate, Span, Tenants
from streams.quote import Left, quote_of
from tests.unit.admission.scene import TENANT, Partition, make_world, request
from tests.unit.admission.test_question import asked


def test_a_quote_of_a_request_that_would_enter() -> None:
    quota = Quota(
        per_second=1, burst=9, gpu_seconds=Rate(per_second=1, burst=100), day=Span(requests=10, gpu_seconds=50)
    )
    partition = Partition(make_world(tenants=Tenants(tenants={TENANT: quota})))
    partition.send(request("r1", images=2))
    partition.world = replace(partition.world, waits={"default": Wait({"standard": 36.0}, gpus=1)})
    found = quote_of(asked(partition, images=3), partition.world, (2,))
    assert (found.enters, found.config, found.pool, found.lane) == (True, "sketch@1", "default", "standard")
    assert found.gpu_seconds == 6.0
    assert found.usd == pytest.approx(6 / 3600, abs=1e-6)
    assert (found.wait_seconds_now, found.wait_seconds_soonest) == (40.0, 10.0)
    assert (found.gpus_now, found.gpus_max) == (1, 4)
    assert found.left == (Left(TENANT, 7.0, 90.0, 8, 40.0, None, None),)
    text = str(found)
    assert "6 GPU-seconds, 0.0017 USD" in text
    assert "40 s with the 1 GPU now, 10 s with all 4 of pool default" in text
    assert "alice then has 7 requests, 90 GPU-seconds, 8 requests today (UTC), 40 GPU-seconds today (UTC) left" in text
    assert "verdict   it would enter" in text
    assert "partition 2 of requests told nothing of late" in text
    json = found.json()
    assert json["left"] == [
        {"account": TENANT, "requests": 7.0, "gpu_seconds": 90.0, "day_requests": 8, "day_gpu_seconds": 40.0}
    ]
    assert "code" not in json


def test_nobody_waits_for_gpus_that_are_not_there() -> None:
    """A pool that was scaled to zero."""
    partition = Partition()
    partition.world = replace(partition.world, waits={"default": Wait({"standard": 36.0}, gpus=0)})
    found = quote_of(asked(partition), partition.world, ())
    assert (found.gpus_now, found.wait_seconds_now) == (0, None)
    assert "wait      9 s with all 4 of pool default (none runs now, and the start of the first" in str(found)


def test_a_quote_of_a_request_that_would_be_refused_has_what_was_come_to() -> None:
    partition = Partition()
    partition.world = replace(partition.world, waits={"default": Wait({"standard": 36.0})})
    late = quote_of(asked(partition, deadline="2027-01-15T08:00:05Z"), partition.world, ())
    assert (late.enters, late.code, late.gpu_seconds, late.lane) == (False, "deadline_infeasible", 2.0, None)
    assert (late.gpus_now, late.wait_seconds_now, late.wait_seconds_soonest) == (None, None, 9.0)
    assert late.left == (Left(TENANT, 5.0, None, None, None, None, None),), "what is refused costs nothing"
    assert "it would be refused, deadline_infeasible: the deadline is 5 s away" in str(late)
    unknown = quote_of(asked(partition, config={"name": "none"}), partition.world, ())
    assert (unknown.code, unknown.config, unknown.gpu_seconds, unknown.wait_seconds_soonest) == (
        "unknown_config", None, None, None,
    )  # fmt: skip
    stranger = quote_of(asked(partition, tenant="nobody"), partition.world, ())
    assert (stranger.code, stranger.left) == ("unknown_tenant", ())
