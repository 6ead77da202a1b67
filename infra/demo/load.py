"""What the demo publishes: sixty good prompts, bad records of ten kinds, and a repeat that costs nothing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from infra.demo.prompts import ORDERS

QUOTA_TENANT = "crowd"  # orders more than its burst in infra/tenants.yaml; the rest is refused as rate_limited


@dataclass(frozen=True, slots=True)
class Sent:
    """One record to publish, and the name it goes by: None where its body has none that can be read."""

    tenant: str
    value: bytes
    request_id: str | None
    prompt: str = ""


def _body(tenant: str, request_id: str, **fields: Any) -> dict[str, Any]:
    body = {"request_id": request_id, "tenant": tenant, "prompt": "a red star", "config": {"name": "shapes"}}
    return body | fields


def _sent(tenant: str, request_id: str, **fields: Any) -> Sent:
    body = _body(tenant, request_id, **fields)
    return Sent(tenant, json.dumps(body, ensure_ascii=False).encode(), request_id, body["prompt"])


def good() -> list[Sent]:
    """The sixty orders, tenants in turn, so that batches mix them."""
    sent = [
        _sent(
            order.tenant,
            f"order-{number:02d}",
            prompt=order.prompt,
            config={"name": order.config},
            seed=number,
            images=2 if number % 10 == 0 and order.tenant != QUOTA_TENANT else 1,
            priority="interactive" if number % 7 == 0 else "standard",
        )
        for number, order in enumerate(ORDERS)
    ]
    return sorted(sent, key=lambda each: each.request_id[::-1] if each.request_id else "")


def bad() -> Iterator[Sent]:
    """One record of each of ten kinds. The conflict names the first good order of atelier with another prompt."""
    yield Sent("atelier", b'{"request_id": "cut-off", "tenant"', None)
    yield Sent("atelier", b'{"tenant": "atelier", "tenant": "bazaar", "request_id": "two-tenants"}', None)
    yield _sent("bazaar", "misspelt", promt="a typing error")
    yield _sent("bazaar", "endless", prompt="very " * 2000 + "long")
    yield _sent("bazaar", "seed-too-large", seed=2**64)
    yield _sent("atelier", "no-such-config", config={"name": "fresco"})
    yield _sent("atelier", "no-such-version", config={"name": "painting", "version": 99})
    yield _sent("atelier", "too-late", deadline="2001-01-01T00:00:00Z")
    yield _sent("bazaar", "from-the-future", schema_version=9)
    yield _sent("atelier", "order-01", prompt="the same name, another wish")


def repeats() -> Iterator[Sent]:
    """Exact repeats of two orders: silent and free."""
    yield from (sent for sent in good() if sent.request_id in {"order-02", "order-26"})
