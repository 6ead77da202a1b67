"""The product's decisions in a virtual pool: as the product is set."""

import pytest

from infra.planner.cells import free_config
from infra.planner.deciding import MEAN_SECONDS, Routed
from infra.planner.pool import PERIOD_SECONDS
from infra.planner.request import Request
from streams.settings import AdmissionServiceSettings


@pytest.mark.parametrize(
    ("field", "ours"), [("demand_mean_seconds", MEAN_SECONDS), ("placing_seconds", PERIOD_SECONDS)]
)
def test_tables_of_places_are_made_as_admission_makes_them(field: str, ours: float) -> None:
    assert ours == AdmissionServiceSettings.model_fields[field].default


def test_a_list_of_one_configuration_goes_to_its_place_at_once_and_later_work_to_where_the_next_table_says() -> None:
    """As in a real pool: a table is made of what came before, and moves nothing that was sent."""
    config = free_config("a", "m", 8.0)
    requests = [Request(n, 10.0, config) for n in range(600)] + [Request(n, 70.0, config) for n in range(600, 1200)]
    router = Routed.of(requests, 16)
    assert len({router.partition(request) for request in requests[:600]}) == 1
    assert len({router.partition(request) for request in requests[600:]}) == 16
