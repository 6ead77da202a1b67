"""KEDA's questions, answered from memory: no call waits for Kafka."""

import math
from collections.abc import AsyncIterator, Mapping
from typing import Any, NoReturn

import grpc

from infra.scaler import externalscaler_pb2 as pb
from infra.scaler.externalscaler_pb2_grpc import ExternalScalerServicer
from infra.scaler.figures import Figures
from infra.scaler.metrics import ScalerMetrics
from infra.scaler.signal import Signal
from infra.scaler.wish import Wish, WishRefused, wish_of
from schemas.pools import Pool

Context = grpc.aio.ServicerContext[Any, Any]


class Answers(ExternalScalerServicer):
    """INVALID_ARGUMENT where the trigger is wrong, UNAVAILABLE where nothing is known: then KEDA's fallback acts. A
    value of 0 means that nothing is to do, and nothing else."""

    def __init__(
        self, figures: Figures, pools: Mapping[str, Pool], metrics: ScalerMetrics, *, streams_max: int
    ) -> None:
        self._figures = figures
        self._pools = pools
        self._metrics = metrics
        self._streams_max = streams_max
        self._streams = dict.fromkeys(pools, 0)
        self._closing = False

    def close(self) -> None:
        """Let the push streams end, so that their clients turn to another process at once."""
        self._closing = True
        for pool in self._pools:
            self._figures.news(pool).set()

    async def IsActive(self, request: pb.ScaledObjectRef, context: Context) -> pb.IsActiveResponse:  # noqa: N802
        wish = await self._wish("IsActive", request, context)
        signal = await self._signal("IsActive", wish, context)
        self._answered("IsActive")
        return pb.IsActiveResponse(result=signal.active(wish.activation))

    async def StreamIsActive(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: Context
    ) -> AsyncIterator[pb.IsActiveResponse]:
        """Says at once how it is, and then each change. Nothing while nothing is known. RESOURCE_EXHAUSTED beyond the
        bound: KEDA tries again by itself, and asks for the value meanwhile."""
        wish = await self._wish("StreamIsActive", request, context)
        if sum(self._streams.values()) >= self._streams_max:
            await self._refuse(
                "StreamIsActive", context, grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{self._streams_max} push streams are open already; raise KILN_SCALER_STREAMS_MAX",
            )  # fmt: skip
        self._answered("StreamIsActive")
        self._open(wish.pool, 1)
        told: bool | None = None
        try:
            while not self._closing:
                news = self._figures.news(wish.pool)
                signal = self._figures.current(wish.pool)
                if signal is not None and (active := signal.active(wish.activation)) != told:
                    told = active
                    self._metrics.count("pushes_total", pool=wish.pool, active=str(active).lower())
                    yield pb.IsActiveResponse(result=active)
                await news.wait()
        finally:
            self._open(wish.pool, -1)

    async def GetMetricSpec(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: Context
    ) -> pb.GetMetricSpecResponse:
        wish = await self._wish("GetMetricSpec", request, context)
        self._answered("GetMetricSpec")
        spec = pb.MetricSpec(metricName=wish.metric, targetSize=math.ceil(wish.target), targetSizeFloat=wish.target)
        return pb.GetMetricSpecResponse(metricSpecs=[spec])

    async def GetMetrics(self, request: pb.GetMetricsRequest, context: Context) -> pb.GetMetricsResponse:  # noqa: N802
        wish = await self._wish("GetMetrics", request.scaledObjectRef, context)
        if request.metricName != wish.metric:
            await self._refuse(
                "GetMetrics", context, grpc.StatusCode.INVALID_ARGUMENT,
                f"the pool {wish.pool!r} has the metric {wish.metric}, not {request.metricName!r}",
            )  # fmt: skip
        value = (await self._signal("GetMetrics", wish, context)).value(wish.target)
        self._answered("GetMetrics")
        told = pb.MetricValue(metricName=wish.metric, metricValue=math.ceil(value), metricValueFloat=value)
        return pb.GetMetricsResponse(metricValues=[told])

    async def _wish(self, method: str, ref: pb.ScaledObjectRef, context: Context) -> Wish:
        try:
            return wish_of(ref.scalerMetadata, self._pools)
        except WishRefused as error:
            said = f"ScaledObject {ref.namespace}/{ref.name}: {error}"
            await self._refuse(method, context, grpc.StatusCode.INVALID_ARGUMENT, said)

    async def _signal(self, method: str, wish: Wish, context: Context) -> Signal:
        signal = self._figures.current(wish.pool)
        if signal is None:
            age = self._figures.age_seconds(wish.pool)
            since = "yet" if math.isinf(age) else f"for {age:.0f} s"
            said = f"nothing was heard of pool {wish.pool!r} {since}; look at Kafka and at the scaler's log"
            await self._refuse(method, context, grpc.StatusCode.UNAVAILABLE, said)
        return signal

    async def _refuse(self, method: str, context: Context, status: grpc.StatusCode, said: str) -> NoReturn:
        self._metrics.count("answers_total", method=method, status=status.name)
        await context.abort(status, said)

    def _answered(self, method: str) -> None:
        self._metrics.count("answers_total", method=method, status="OK")

    def _open(self, pool: str, more: int) -> None:
        self._streams[pool] += more
        self._metrics.set("streams", self._streams[pool], pool=pool)
