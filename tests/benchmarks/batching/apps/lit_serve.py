"""LitServe: one worker with max_batch_size and batch_timeout."""

from typing import Any

import litserve

from tests.benchmarks.batching.apps import painter


class Painting(litserve.LitAPI):
    def setup(self, device: str) -> None:
        self._painter = painter.Painter()

    def decode_request(self, request: dict[str, Any]) -> int:
        return int(request["steps"])

    def batch(self, inputs: list[int]) -> list[int]:
        return list(inputs)

    def predict(self, steps: list[int]) -> list[int]:
        return self._painter.paint(steps)

    def unbatch(self, output: list[int]) -> list[int]:
        return output

    def encode_response(self, output: int) -> dict[str, int]:
        return {"steps": output}


def main() -> None:
    api = Painting(max_batch_size=painter.SIZE, batch_timeout=painter.WAIT, api_path="/paint")
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, timeout=False)
    server.run(host="127.0.0.1", port=painter.PORT, num_api_servers=1, generate_client_file=False, log_level="warning")


if __name__ == "__main__":
    main()
