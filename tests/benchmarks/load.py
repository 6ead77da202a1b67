"""Publishing requests and watching what comes of them, by a client library that the services do not use."""

import json
import threading
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

TENANTS = tuple(f"bench-{i}" for i in range(16))  # on all partitions


def request(number: int, prompts: Sequence[str], configs: Sequence[str]) -> tuple[str, bytes]:
    """The tenant and the body of one request."""
    tenant = TENANTS[number % len(TENANTS)]
    prompt = prompts[number % len(prompts)] if prompts else f"a picture of nothing in particular, number {number}"
    body = {
        "request_id": f"b{number}",
        "tenant": tenant,
        "prompt": prompt,
        "config": {"name": configs[number % len(configs)]},
        "seed": number,
    }
    return tenant, json.dumps(body).encode()


class Publisher:
    """Good requests, numbered from 0. `prompts` and `configs` come in turn; without prompts each has its own."""

    def __init__(
        self, bootstrap: str, topic: str, *, prompts: Sequence[str] = (), configs: Sequence[str] = ("sketch",)
    ) -> None:
        self._topic = topic
        self._prompts = prompts
        self._configs = configs
        self._number = 0
        self._producer: Any = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "partitioner": "murmur2_random"}
        )
        self.published: dict[str, float] = {}  # request id -> when, monotonic

    def publish(self) -> str:
        """Hand one request to the client. Returns its id."""
        request_id, tenant, body = self._next()
        self._hand_over(request_id, tenant, body)
        return request_id

    def burst(self, count: int) -> float:
        """Publish `count` at once and return when it began, monotonic. Blocks until all are acknowledged."""
        ready = [self._next() for _ in range(count)]  # so that publishing takes little from what is measured
        started = time.monotonic()
        for each in ready:
            self._hand_over(*each)
        self.flush()
        return started

    def drip(self, per_second: float, seconds: float) -> list[str]:
        """Publish evenly for a while. Returns the ids."""
        started = time.monotonic()
        ids = []
        for i in range(int(per_second * seconds)):
            time.sleep(max(0.0, started + i / per_second - time.monotonic()))
            ids.append(self.publish())
        self.flush()
        return ids

    def _next(self) -> tuple[str, str, bytes]:
        number, self._number = self._number, self._number + 1
        return f"b{number}", *request(number, self._prompts, self._configs)

    def _hand_over(self, request_id: str, tenant: str, body: bytes) -> None:
        self.published[request_id] = time.monotonic()
        self._producer.produce(self._topic, body, key=tenant.encode())
        self._producer.poll(0)

    def flush(self) -> None:
        if left := self._producer.flush(60):
            raise TimeoutError(f"{left} requests were not acknowledged within a minute")


class Watcher:
    """A thread that follows topics as a read_committed reader, and notes when each record came."""

    def __init__(self, bootstrap: str, partitions: Sequence[tuple[str, int]]) -> None:
        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench-watcher",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in partitions])
        self._seen: list[tuple[float, bytes]] = []
        self._forgotten = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="watcher", daemon=True)
        self._thread.start()

    def wait(self, count: int, seconds: float) -> float:
        """Block until `count` records have come in all. Returns when the last of them came. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while self.count < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.count} of {count} records came within {seconds:.0f} s")
            time.sleep(0.01)
        return self._seen[count - 1 - self._forgotten][0]

    @property
    def count(self) -> int:
        return self._forgotten + len(self._seen)

    def forget(self) -> None:
        """Keep the number of what came so far and nothing else: a reader of millions would fill the memory."""
        number = len(self._seen)
        del self._seen[:number]
        self._forgotten += number

    def moments(self) -> list[float]:
        """When each record came that is not forgotten, monotonic."""
        return [moment for moment, _ in self._seen]

    def by_request(self, start: int = 0) -> dict[str, tuple[float, dict[str, Any]]]:
        """When the record of each request came, and its body, from the `start`-th record on."""
        bodies = [(moment, json.loads(value)) for moment, value in self._seen[max(0, start - self._forgotten) :]]
        return {body["request_id"]: (moment, body) for moment, body in bodies}

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _follow(self) -> None:
        while not self._stop.is_set():
            first = self._consumer.poll(0.05)
            if first is None:
                continue
            # Asked to wait for a thousand, it would hold the first ones back.
            messages = [first, *self._consumer.consume(1000, timeout=0)]
            now = time.monotonic()
            self._seen += [(now, message.value()) for message in messages if message.error() is None]
