"""Days and months of quota time (UTC), counted from 1970."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

_DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def day_of(now_ms: int) -> int:
    return now_ms // _DAY_MS


def day_ends_ms(day: int) -> int:
    return (day + 1) * _DAY_MS


def month_of(now_ms: int) -> int:
    return _month_of_day(day_of(now_ms))


@lru_cache(maxsize=128)
def month_ends_ms(month: int) -> int:
    year, index = divmod(month + 1, 12)
    return (datetime(1970 + year, index + 1, 1, tzinfo=UTC) - _EPOCH).days * _DAY_MS


@lru_cache(maxsize=128)
def _month_of_day(day: int) -> int:
    date = _EPOCH + timedelta(days=day)
    return (date.year - 1970) * 12 + date.month - 1
