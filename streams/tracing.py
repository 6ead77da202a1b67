"""Traces of requests, if they are wished: where each spent its time, from admission to its result.

A span is told when it is over, with its times, so nothing is held open and nothing is passed around but the context
that records carry. Off, it costs a call that does nothing, and what a request brought is carried on as it came.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from schemas.trace import TraceContext, trace_of

Kind: TypeAlias = Literal["consumer", "producer", "internal"]
Attributes: TypeAlias = Mapping[str, str | int | float]
Headers: TypeAlias = Iterable[tuple[str, bytes | None]]


class Tracing:
    """Off. For one loop; never blocks it."""

    on: bool = False

    def begin(self, headers: Headers, job_id: str) -> tuple[TraceContext | None, TraceContext | None]:
        """Of a request that is decided: what it came with, and what its decision, work and result carry."""
        came = trace_of(headers)
        return came, came

    def span(
        self,
        name: str,
        trace: TraceContext,
        span_id: str,
        times_ns: tuple[int, int],
        attributes: Attributes,
        *,
        kind: Kind = "internal",
        failed: bool = False,
    ) -> None:
        """Tell of what is over. `trace` names its parent; `times_ns`: beginning and end, of the wall's clock."""

    async def close(self) -> None:
        """Let what was told go out, within a bounded time."""


OFF = Tracing()
