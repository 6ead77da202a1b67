"""A process that uses the store of its environment. Started by the contract tests:

race NAME ROUNDS THREADS     wait for a line, then create race/0, race/1 … from THREADS threads; print who won
write NAME                   write artifact after artifact, saying each key before, until killed
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import count

from gpu_consumer.store.base import ObjectStore, StoreSettings
from gpu_consumer.store.choice import open_store

BYTES = 4 << 20


def race(store: ObjectStore, name: str, rounds: int, threads: int) -> dict[str, list[str]]:
    """The winners' bodies, a list a key."""
    bodies = [f"{name}-{thread}" for thread in range(threads)]
    won: dict[str, list[str]] = {}
    with ThreadPoolExecutor(threads) as pool:
        for key in (f"race/{number}" for number in range(rounds)):
            created = pool.map(lambda body, key=key: store.create(key, body.encode(), "text/plain"), bodies)
            won[key] = [body for body, mine in zip(bodies, created, strict=True) if mine]
    return won


def main() -> None:
    settings = StoreSettings()
    store = open_store(settings.url, settings)
    command, name = sys.argv[1:3]
    if command == "race":
        rounds, threads = map(int, sys.argv[3:])
        store.get("race/warm")  # the connection and boto3's import are not part of the race
        print("ready", flush=True)
        sys.stdin.readline()
        print(json.dumps(race(store, name, rounds, threads)), flush=True)
        return
    for number in count():
        data = f"{name}-{number}-".encode() * (BYTES // 16)
        key = f"written/{sha256(data).hexdigest()}"
        print(key, flush=True)
        store.put(key, data, "application/octet-stream")


if __name__ == "__main__":
    main()
