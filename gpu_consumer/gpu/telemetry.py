"""GpuTelemetry: the card watched from a thread of its own, and what readiness and a scrape see of it."""

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.metrics_core import Metric as Family

from gpu_consumer.gpu.health import FAULTS, Condition, Fault, faults
from gpu_consumer.gpu.metrics import PEAKS, Card, families
from gpu_consumer.gpu.nvml import CardLost, NvmlUnavailable
from gpu_consumer.gpu.sampler import Peak, Sample, Session
from gpu_consumer.gpu.settings import GpuTelemetrySettings

_LOG = logging.getLogger(__name__)
_STOP_SECONDS = 2.0  # for a sample under way; a thread that hangs in the driver is a daemon's and is left behind


class GpuTelemetry:
    """For one card; a collector of a Prometheus registry. `start` and `stop` once.

    The rest may be called at any time and never blocks.

    NVML that is missing, unwell or blocked is one sentence in the log and absent metrics, and never more.
    """

    def __init__(
        self,
        settings: GpuTelemetrySettings,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._environment = dict(environment)
        self._clock = clock
        self._engines = ""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        # The thread's own.
        self._session: Session | None = None
        self._failures = 0
        self._said: str | None = None
        # Shared; the lock is never held over a call of NVML.
        self._lock = threading.Lock()
        self._sample: Sample | None = None
        self._sampled_at = 0.0
        self._lost = False
        self._condition = Condition()  # the last that was read: a fault stays until NVML says otherwise
        self._uuid = ""
        self._identity: tuple[str, str, str, str] | None = None
        self._peaks = {name: Peak(settings.window_seconds) for name in PEAKS}
        self._throttled: Counter[str] = Counter()
        self._xids: Counter[int] = Counter()
        self._xid_at: dict[int, float] = {}

    def start(self) -> None:
        assert self._thread is None, "started already"
        self._thread = threading.Thread(target=self._run, name="gpu-telemetry", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Blocks for a sample under way, two seconds at most. Safe without a start."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def follow(self, uuid: str) -> None:
        """The device that an engine says it has: watched where neither the setting nor the environment tells.

        Anything but the UUID of a card or slice is ignored.
        """
        if uuid.startswith(("GPU-", "MIG-")):
            self._engines = uuid

    def unready(self) -> str | None:
        """A sentence where the card has a fault that counts: for /readyz."""
        with self._lock:
            found = self._faults()
            uuid = self._uuid
        counted = [clause for fault, clause in found.items() if fault in self._settings.unready_on]
        if not counted:
            return None
        card = uuid or "of this consumer"
        return f"the card {card} is not well: {'; '.join(counted)}. Drain this node and reset the card"

    def describe(self) -> Iterator[Family]:
        return families(Card())

    def collect(self) -> Iterator[Family]:
        """For a Prometheus registry."""
        now = self._clock()
        with self._lock:
            fresh = self._sample if now - self._sampled_at <= self._settings.stale_seconds else None
            found = self._faults()
            card = Card(
                sample=fresh,
                peaks={name: value for name, peak in self._peaks.items() if (value := peak.at(now)) is not None},
                identity=self._identity,
                throttled_seconds=dict(self._throttled),
                faults={fault: fault in found for fault in FAULTS} if self._identity else {},
                xids=dict(self._xids),
            )
        return families(card)

    def step(self) -> float:
        """Open what is not open and take one sample; returns the seconds until the next. Blocks; raises nothing."""
        try:
            return self._step()
        except CardLost as error:
            with self._lock:
                self._lost = True
            return self._failed(f"the driver has lost the card ({error})")
        except NvmlUnavailable as error:
            return self._failed(str(error))
        except Exception as error:  # whatever a binding may yet do: telemetry is no reason to stop work
            return self._failed(f"NVML answers what it should not ({error!r})")

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._stopping.wait(self.step())
        self._close()

    def _step(self) -> float:
        if self._session is None:
            self._session = Session.open(self._settings.device, self._environment, self._engines)
        if self._session is None:
            raise NvmlUnavailable(self._unknown(self._settings.device or self._engines))
        xids, sample = self._session.xids(), self._session.sample()
        self._keep(self._session, xids, sample)
        if self._said is not None:
            _LOG.info("NVML answers: the card is %s", self._session.handles.uuid)
        self._failures, self._said = 0, None
        return self._settings.every_seconds

    def _keep(self, session: Session, xids: list[int], sample: Sample) -> None:
        now, handles = self._clock(), session.handles
        with self._lock:
            since = min(now - self._sampled_at, 2 * self._settings.every_seconds) if self._sample else 0.0
            self._throttled.update({name: since * held for name, held in sample.throttles.items()})
            self._uuid = handles.uuid
            self._identity = (handles.uuid, handles.card_uuid, session.product, session.driver)
            self._sample, self._sampled_at = sample, now
            self._condition, self._lost = sample.condition, False
            for name, peak in self._peaks.items():
                if (value := getattr(sample, name)) is not None:
                    peak.add(now, value)
            self._xids.update(xids)
            self._xid_at.update(dict.fromkeys(xids, now))
        for xid in xids:
            _LOG.warning("the card %s reports Xid %d", handles.uuid, xid)

    def _failed(self, sentence: str) -> float:
        self._close()
        with self._lock:
            self._sample = None
        if sentence != self._said:
            _LOG.warning("%s; its metrics are absent until it answers", sentence)
        self._said = sentence
        # The first try comes soon: a driver that was reloaded wants NVML to be opened again, and no more.
        self._failures += 1
        wait = self._settings.every_seconds * 2.0 ** min(self._failures - 1, 16)
        return max(self._settings.every_seconds, min(wait, self._settings.retry_seconds_max))

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _faults(self) -> dict[Fault, str]:
        oldest = self._clock() - self._settings.xid_seconds
        counted = [x for x, at in self._xid_at.items() if x in self._settings.xids and at >= oldest]
        return faults(self._condition, lost=self._lost, xids=counted)

    def _unknown(self, device: str) -> str:
        if device:
            return f"NVML does not list the device {device}"
        visible = self._environment.get("CUDA_VISIBLE_DEVICES")
        order = self._environment.get("CUDA_DEVICE_ORDER")
        return (
            f"which card is ours cannot be told (CUDA_VISIBLE_DEVICES is {visible!r}, CUDA_DEVICE_ORDER is {order!r}); "
            "set KILN_GPU_TELEMETRY_DEVICE to its UUID"
        )
