"""What tenants may be declared."""

from typing import Any

import pytest
from pydantic import ValidationError

from schemas.tenants import Tenants

RATE = {"per_second": 1, "burst": 1}


def tenants(default: Any = None, **named: Any) -> Tenants:
    listed = {name.replace("__", "."): RATE | more for name, more in named.items()}
    return Tenants.model_validate({"default": default, "tenants": listed})


def test_tenants_with_a_topic_are_told() -> None:
    declared = tenants(b={"topic": True}, a={"topic": True}, c={}, d={"signed": True})
    assert declared.own_topics == ("a", "b")


def test_a_default_has_no_topic() -> None:
    with pytest.raises(ValidationError, match="list each tenant"):
        tenants(RATE | {"topic": True})


def test_two_topics_that_kafka_takes_for_one_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"the topics of 'a\.b' and 'a_b' would be one"):
        tenants(a__b={"topic": True}, a_b={"topic": True})
    assert tenants(a__b={"topic": True}, a_b={}).own_topics == ("a.b",)
