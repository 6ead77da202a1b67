"""What one record may cost: calls and memory in proportion to its bytes, and nothing that stays."""

import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from types import FrameType
from typing import Any

from tests.fuzz.judge import Judge
from tests.fuzz.mutate import Mutator
from tests.fuzz.samples import Sample
from tests.unit.admission.scene import request

# Bytes of memory while a record is decided, for each of its own: an empty list is 3 bytes as JSON, and a hundred here.
_PEAK_PER_BYTE = 64
_PEAK_BYTES = 400_000


def _with(text: str) -> bytes:
    return json.dumps(request()).encode()[:-1] + b"," + text.encode() + b"}"


def _many(member: Callable[[int], str], size: int) -> str:
    return ",".join(member(number) for number in range(size // len(member(0xFFFF))))


# Records that grow to `size` bytes, each where a reader could look at everything for everything.
SHAPES: dict[str, Callable[[int], Sample]] = {
    "fields": lambda size: Sample(_with(_many(lambda n: f'"{n:x}":1', size))),
    "one field again and again": lambda size: Sample(_with(_many(lambda n: '"a":1', size))),
    "the last field twice": lambda size: Sample(_with(_many(lambda n: f'"{n:x}":1', size) + ',"b":1,"b":2')),
    "fields of config": lambda size: Sample(_with('"config":{' + _many(lambda n: f'"{n:x}":1', size) + "}")),
    "fields beside a flaw": lambda size: Sample(_with('"a":NaN,' + _many(lambda n: f'"{n:x}":1', size))),
    "metadata": lambda size: Sample(_with('"metadata":{' + _many(lambda n: f'"{n:x}":1', size) + "}")),
    "lists": lambda size: Sample(_with('"inputs":[' + _many(lambda n: "[[[]]]", size) + "]")),
    "digits": lambda size: Sample(_with('"seed":' + "9" * size)),
    "many digits": lambda size: Sample(_with('"inputs":[' + _many(lambda n: "9" * 640, size) + "]")),
    "a fraction": lambda size: Sample(_with('"seed":0.' + "9" * size)),
    "an exponent": lambda size: Sample(_with('"seed":1e-' + "9" * size)),
    "brackets": lambda size: Sample(b"[" * size),
    "objects": lambda size: Sample(b'{"a":' * (size // 5)),
    "quotes": lambda size: Sample(b'"' * size),
    "backslashes": lambda size: Sample(_with('"prompt":"' + "\\" * size)),
    "escapes": lambda size: Sample(_with('"negative_prompt":"' + "\\ud83c\\udffa" * (size // 12) + '"')),
    "combining": lambda size: Sample(_with('"negative_prompt":"a' + "\u0301" * (size // 2) + '"')),
    "spaces": lambda size: Sample(_with(" " * size + '"seed":1')),
    "a wrong byte at the end": lambda size: Sample(_with(f'"negative_prompt":"{"a" * size}') + b"\xff"),
    "a request id": lambda size: Sample(json.dumps(request("r" * size)).encode()),
    "headers": lambda size: Sample(json.dumps(request()).encode(), None, (("h", b"x"),) * (size // 2)),
    "a deadline": lambda size: Sample(_with('"deadline":"2030-' + "0" * size + '"')),
    "retry_of": lambda size: Sample(_with('"retry_of":"' + "r" * size + '"')),
}


def calls(work: Callable[[], Any]) -> int:
    """Calls that Python makes or hands to C: the same on every machine."""
    count = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        del frame, argument
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def _deciding(sample: Sample) -> Callable[[], Any]:
    judge = Judge(Random(0))
    record = judge.arrives(sample)
    return lambda: judge.decide(record)


def calls_grown(shape: str, size: int) -> tuple[int, int]:
    """Calls to decide a record of `size` bytes, and one of ten times that."""
    small, large = (calls(_deciding(SHAPES[shape](each))) for each in (size, 10 * size))
    return small, large


def time_grown(shape: str, size: int) -> float:
    """How many times longer ten times the bytes take: processor time, the best of five; less than 1 ms counts as 1."""

    def seconds(work: Callable[[], Any]) -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    small, large = (
        max(0.001, min(seconds(work) for _ in range(5)))
        for work in (_deciding(SHAPES[shape](each)) for each in (size, 10 * size))
    )
    return large / small


def peak_bytes(sample: Sample) -> tuple[int, int]:
    """The most memory that deciding a sample takes at once, and what it may."""
    work = _deciding(sample)
    gc.collect()
    tracemalloc.start()
    try:
        work()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak, _PEAK_BYTES + _PEAK_PER_BYTE * sample.size


def kept_bytes(seed: int, records: int, corpus: list[Sample]) -> Iterator[int]:
    """What is held after each of five rounds of `records` through one partition, by the corpus as it is.

    Nothing is read back here: the reader of JSON in pydantic keeps some thousands of the strings that it met.
    """
    judge, mutator = Judge(Random(seed)), Mutator(Random(seed), corpus)
    tracemalloc.start()
    try:
        for _ in range(5):
            for _ in range(records):
                judge.live(judge.arrives(mutator.sample()))
            gc.collect()
            yield tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
