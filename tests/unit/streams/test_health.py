"""The health page over a real socket."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge

from schemas.errors import CommandError
from streams.health import HealthServer


class Service:
    """What the checks look at."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.wrong: dict[str, str | None] = {"live": None, "ready": None}
        self.note: str | None = None
        self.server = HealthServer(
            0,
            live=lambda: self.wrong["live"],
            ready=lambda: self.wrong["ready"],
            note=lambda: self.note,
            registry=self.registry,
        )

    async def get(self, path: str) -> tuple[int, str, str]:
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.get(f"http://127.0.0.1:{self.server.port}{path}") as answer,
        ):
            return answer.status, answer.headers["Content-Type"], await answer.text()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    service = Service()
    await service.server.start()
    yield service
    await service.server.stop()


@pytest.mark.parametrize(("path", "check"), [("/livez", "live"), ("/readyz", "ready")])
async def test_a_page_says_what_is_wrong(service: Service, path: str, check: str) -> None:
    assert (await service.get(path))[::2] == (200, "ok\n")
    service.wrong[check] = "the view of kiln.control is 40 s old"
    assert (await service.get(path))[::2] == (503, "the view of kiln.control is 40 s old\n")
    service.wrong[check] = None
    assert (await service.get(path))[0] == 200


async def test_who_is_ready_may_say_something_all_the_same(service: Service) -> None:
    service.note = "a ledger is not believed"
    assert (await service.get("/readyz"))[::2] == (200, "ok; but a ledger is not believed\n")
    assert (await service.get("/livez"))[::2] == (200, "ok\n")
    service.wrong["ready"] = "warming"
    assert (await service.get("/readyz"))[::2] == (503, "warming\n")


async def test_ready_and_live_are_told_apart(service: Service) -> None:
    service.wrong["ready"] = "warming"
    assert (await service.get("/livez"))[0] == 200
    assert (await service.get("/readyz"))[0] == 503


async def test_a_check_that_raises_is_not_fine() -> None:
    def broken() -> str | None:
        raise RuntimeError("no such attribute")

    service = Service()
    service.server = HealthServer(0, live=broken, ready=broken, registry=service.registry)
    await service.server.start()
    try:
        status, _, text = await service.get("/livez")
    finally:
        await service.server.stop()
    assert status == 503
    assert "no such attribute" in text


async def test_metrics_are_those_of_the_given_registry(service: Service) -> None:
    Gauge("kiln_view_age_seconds", "age", registry=service.registry).set(1.5)
    status, content_type, text = await service.get("/metrics")
    assert status == 200
    assert content_type.startswith("text/plain; version=")
    assert "kiln_view_age_seconds 1.5" in text
    assert "python_info" not in text


async def test_it_listens_on_the_loopback_only_and_lets_go_of_its_port(service: Service) -> None:
    port = service.server.port
    again = HealthServer(port, live=lambda: None, ready=lambda: None, registry=service.registry, setting="KILN_PORT")
    with pytest.raises(CommandError, match=r"already in use.*set KILN_PORT, 0 takes a free one"):
        await again.start()
    await service.server.stop()
    await service.server.stop()
    free = HealthServer(port, live=lambda: None, ready=lambda: None, registry=service.registry)
    await free.start()
    await free.stop()
