"""Compressed batches made plain, within a bound: 32 kB of zstd may unfold to 1 GiB, and a broker takes them."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import cramjam
from aiokafka.codec import snappy_decode

# Clients bound a batch before they compress it, most of them at 1 MiB.
UNFOLDED_MAX = 16 << 20

_ROOM_FIRST, _USUAL_RATIO = 1024, 16  # made larger as it is wanted: to clear all of it takes longer than most batches


def unfold(codec: int, data: bytes) -> bytes:
    """`codec` is the number that Kafka gives it. Raises whatever its decoder does, and OverflowError at a bomb."""
    return _DECODERS[codec](data)


def _gzip(data: bytes) -> bytes:
    plain = b""
    while data:
        stream = zlib.decompressobj(wbits=31)
        plain += stream.decompress(data, UNFOLDED_MAX + 1 - len(plain))
        if len(plain) > UNFOLDED_MAX:
            raise OverflowError(f"it unfolds to more than {UNFOLDED_MAX} bytes")
        if not stream.eof:
            raise EOFError("it ends in the middle")
        data = stream.unused_data
    return plain


def _within(codec: Any) -> Callable[[bytes], bytes]:
    def decode(data: bytes) -> bytes:
        room = _ROOM_FIRST + _USUAL_RATIO * len(data)
        while True:
            room = min(room, UNFOLDED_MAX)
            plain = bytearray(room)
            try:
                return bytes(memoryview(plain)[: codec.decompress_into(data, plain)])
            except cramjam.DecompressionError as error:  # the same for want of room and for wrong bytes
                if room == UNFOLDED_MAX:
                    raise OverflowError(f"it is broken, or unfolds to more than {UNFOLDED_MAX} bytes") from error
            room *= _USUAL_RATIO

    return decode


_DECODERS: Mapping[int, Callable[[bytes], bytes]] = {
    1: _gzip,
    2: snappy_decode,  # to 21 times its length at most
    3: _within(cramjam.lz4),
    4: _within(cramjam.zstd),
}
