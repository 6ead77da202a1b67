"""Record batches with a right checksum and anything in them: what a broker takes, the client's decoder reads, and ours
reads again where that gives up. Each offset comes to admission once, whatever became of its record."""

from random import Random

from aiokafka import TopicPartition
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from aiokafka.consumer import fetcher

from streams.kafka.batches import HEADER_UNREADABLE, Batches
from streams.requests import arrival_of
from tests.fuzz.judge import Judge
from tests.fuzz.mutate import Mutator
from tests.fuzz.samples import Sample
from tests.raw_records import raw_batch, raw_record, varint
from tests.unit.admission.scene import HOME

_AT = TopicPartition("requests", HOME)
_CODECS = {0: bytes, 1: gzip_encode, 2: snappy_encode, 3: lz4_encode, 4: zstd_encode}
_LENGTHS = (-2, -1, 0, 1, 63, 64, 2**31 - 1, 2**31, 2**62, -(2**31))


class Wire:
    """Batches of a seed through one partition."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._mutator = Mutator(self._chance, [])
        self.judge = Judge(self._chance)
        self.records = 0
        self.unreadable = 0

    def step(self) -> None:
        """One more batch. Raises AssertionError, or what the readers do."""
        count, batch = mutated_batch(self._chance, self._mutator)
        base = self.judge.state.next
        fetched = fetcher.PartitionRecords(
            _AT, Batches(base.to_bytes(8) + batch[8:]), [], base, None, None, True, fetcher.READ_COMMITTED
        )
        read = list(fetched)
        assert [record.offset for record in read] == list(range(base, base + count)), f"{batch!r:.2000}"
        for record in read:
            arrival = arrival_of(record)
            outputs = self.judge.live(arrival)
            assert self.judge.state.next == arrival.offset + 1
            assert outputs
            self.records += 1
            self.unreadable += any(name == HEADER_UNREADABLE for name, _ in arrival.headers)


def mutated_batch(chance: Random, mutator: Mutator) -> tuple[int, bytes]:
    """So many records, and a batch of them with a right checksum."""
    count = chance.choice((1, 1, 2, 5))
    raw = [_raw(delta, mutator.sample()) for delta in range(count)]
    if chance.random() < 0.8:
        at = chance.randrange(count)
        raw[at] = _flawed(raw[at], chance)
    codec = chance.choice((0, 0, *_CODECS))
    flawed = codec and chance.random() < 0.3
    batch = raw_batch(
        raw, codec=codec, pack=lambda data: _flawed(_CODECS[codec](data), chance) if flawed else _CODECS[codec](data)
    )
    return count, batch


def _raw(delta: int, sample: Sample) -> bytes:
    return raw_record(delta, sample.key, sample.value, [(name.encode(), value) for name, value in sample.headers])


def _flawed(data: bytes, chance: Random) -> bytes:
    """Bytes changed near the beginning, where the lengths stand, or anywhere."""
    at = chance.randint(0, min(len(data), chance.choice((12, 40, len(data)))))
    match chance.randrange(5):
        case 0:
            return data[:at] + varint(chance.choice(_LENGTHS)) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[at + 1 :]
        case 3:
            return data[:at] + chance.randbytes(chance.choice((1, 4, 12))) + data[at:]
        case _:
            return data[:at] + chance.randbytes(1) + data[at + 1 :]
