"""Ray Serve: one replica with @serve.batch. Ends with its standard input."""

import asyncio
import sys
import tempfile

import ray
from ray import serve
from starlette.requests import Request

from tests.benchmarks.batching.apps import painter

# Without any wait it takes one request a batch, even if others are in its queue.
_WAIT_SECONDS_MIN = 0.002


@serve.deployment(num_replicas=1, max_ongoing_requests=100_000, ray_actor_options={"num_cpus": 0})
class Painting:
    def __init__(self) -> None:
        self._painter = painter.Painter()

    @serve.batch(max_batch_size=painter.SIZE, batch_wait_timeout_s=max(painter.WAIT, _WAIT_SECONDS_MIN))
    async def paint(self, steps: list[int]) -> list[int]:
        return await asyncio.to_thread(self._painter.paint, steps)

    async def __call__(self, request: Request) -> int:
        body = await request.json()
        made: int = await self.paint(body["steps"])
        return made


def main() -> None:
    # A short path: Ray's sockets lie beneath it, and the length of their names is bounded.
    with tempfile.TemporaryDirectory(prefix="kiln-ray-", ignore_cleanup_errors=True) as folder:
        ray.init(num_cpus=2, include_dashboard=False, _temp_dir=folder, _node_ip_address="127.0.0.1")
        serve.start(http_options={"host": "127.0.0.1", "port": painter.PORT, "request_timeout_s": None})
        serve.run(Painting.bind(), route_prefix="/paint")
        sys.stdin.read()
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main()
