"""When requests were cancelled: the cancels topic, in memory for as long as a cancel can reach anything. Pure."""

from collections import OrderedDict

from streams.kafka.log import Record


class CancelTimes:
    """`known` is request name -> LogAppendTime of its newest cancel, the oldest first."""

    def __init__(self, kept_ms: int) -> None:
        self.known: OrderedDict[bytes, int] = OrderedDict()
        self._kept_ms = kept_ms

    def fold(self, record: Record) -> None:
        """Anybody's record. Afterwards its key is known if it is a cancel, and not if it takes one back."""
        if record.key is None:
            return
        self.known.pop(record.key, None)
        if record.value is None:
            return
        self.known[record.key] = record.timestamp
        # The topic keeps a cancel for longer than the longest deadline: what it has dropped can reach nothing.
        while next(iter(self.known.values())) < record.timestamp - self._kept_ms:
            self.known.popitem(last=False)
