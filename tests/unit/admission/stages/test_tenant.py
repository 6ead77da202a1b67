"""Who may ask at all."""

from admission.decide import decide
from schemas.tenants import Quota, Tenants
from tests.unit.admission.scene import NOW_MS, accepted, arrival, fresh_state, make_world, rejected, request


def test_the_tenant_needs_a_quota() -> None:
    nobody = make_world(tenants=Tenants())
    result = rejected(decide(arrival(request()), fresh_state(), nobody, NOW_MS))
    assert (result.code, result.field) == ("unknown_tenant", "tenant")
    everybody = make_world(tenants=Tenants(default=Quota(per_second=1, burst=1)))
    accepted(decide(arrival(request()), fresh_state(), everybody, NOW_MS))
