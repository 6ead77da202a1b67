"""A pool's ledgers as they are written: what is finished out of order, and what runs."""

import logging
import math
from collections.abc import Callable

from gpu_consumer.ledger import Ledger
from infra.scaler.book import Book, Place
from schemas.errors import SchemaError
from schemas.request import LANES
from schemas.topics import Catalogue
from streams.kafka.followed import Followed
from streams.kafka.log import Record
from streams.kafka.settings import KafkaSettings
from streams.kafka.view import CompactedView

_LOG = logging.getLogger(__name__)


class Ledgers(Followed):
    """Folds them into the pool's book; `changed` hears of each."""

    def __init__(
        self, kafka: KafkaSettings, catalogue: Catalogue, pool: str, book: Book, changed: Callable[[str], None]
    ) -> None:
        super().__init__(CompactedView(kafka, catalogue.ledger(pool), self.fold))
        self._pool = pool
        self._book = book
        self._places = set(book.places)
        self._changed = changed

    @property
    def age_seconds(self) -> float:
        """Since the topic was last heard of; inf until it was read once, and for good where it cannot be."""
        return self._view.age_seconds if self._view.ready else math.inf

    def fold(self, record: Record) -> None:
        """One that cannot be read, be it of a newer consumer, is passed over: the group's offset says enough."""
        lane = next((each for each in LANES if record.key == each.encode()), None)
        if lane is None or record.value is None or (place := Place(lane, record.partition)) not in self._places:
            return
        try:
            ledger = Ledger.decode(record.value)
        except SchemaError as error:
            _LOG.info("a ledger of pool %s at offset %d is passed over: %s", self._pool, record.offset, error)
            return
        self._book.take_ledger(place, ledger)
        self._changed(self._pool)
