"""What the intake brings twice, late or not at all: the log of requests says what there is."""

from admission.arrival import Arrival
from tests.unit.admission.scene import arrival, request
from tests.unit.streams.test_holding import WORLD, _Scene, serving


def decided(scene: _Scene) -> list[str]:
    """Which requests, in the order of their decisions."""
    outputs = [each for transaction in scene.lease.begun for each in transaction.outputs]
    return [
        (each.key or b"").decode().rpartition("/")[2] for each in outputs if each.topic == WORLD.catalogue.decisions
    ]


def offsets(scene: _Scene) -> list[int]:
    return [offset for transaction in scene.lease.begun for offset in transaction.offsets.values()]


async def until_done(scene: _Scene, offset: int) -> None:
    for _ in range(10):
        scene.lease.end()
    await scene.until(lambda: scene.moved[-1] >= offset)


async def test_no_offset_is_committed_beyond_a_request_that_the_intake_left_out() -> None:
    """Case FST-02: it is read and decided before those that came after it."""
    async with serving() as (scene, _):
        one, *others = [arrival(request(f"r{n}"), n) for n in range(4)]
        scene.left_out = [one, *others]
        await scene.inbox.put(others)
        await scene.until(lambda: bool(scene.lease.begun))
        assert (decided(scene)[0], offsets(scene)[0]) == ("r0", 2), "of a batch of two"
        await until_done(scene, 4)
        assert decided(scene) == ["r0", "r1", "r2", "r3"]
        assert offsets(scene) == sorted(offsets(scene))


async def test_a_request_that_is_brought_twice_is_decided_once_and_holds_up_no_offset() -> None:
    """Case FST-05: as after broken connections."""
    async with serving() as (scene, _):
        one, two, three = (arrival(request(f"r{n}"), n) for n in range(3))
        brought: list[Arrival] = [one, one, two, one, two, three]
        for each in brought:
            await scene.inbox.put([each])
        await until_done(scene, 3)
        assert decided(scene) == ["r0", "r1", "r2"]
        assert offsets(scene)[-1] == 3
