"""How a job may end without its pictures, in words. Pure."""

from typing import Literal

from gpu_consumer.settings import GpuConsumerSettings
from schemas.result import FailureCode

Verdict = tuple[Literal["failed", "expired", "cancelled"], FailureCode | None, str]  # status, code, and a sentence


def late(*, started: bool) -> Verdict:
    return "expired", None, f"the deadline passed {'while the job ran' if started else 'before the job could run'}"


def cancelled(because: str = "", *, started: bool) -> Verdict:
    message = f"cancelled {'while it ran' if started else 'before it ran'}"
    return "cancelled", None, f"{message}: {because}" if because else message


def deadly(engine_deaths: int, consumer_deaths: int, settings: GpuConsumerSettings) -> Verdict | None:
    """Of one that engines or consumers died with too often."""
    if engine_deaths >= settings.engine_deaths_max:
        return "failed", "engine_death", f"the engine died in {engine_deaths} runs of this job"
    if consumer_deaths > settings.consumer_deaths_max:
        return "failed", "engine_death", f"{consumer_deaths} consumers died while this job ran"
    return None
