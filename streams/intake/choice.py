"""The intake that the settings name. Faust is imported only where it is used: it is slow to import."""

from typing import Literal

from streams.intake.base import Intake
from streams.kafka.settings import KafkaSettings


def make_intake(name: Literal["faust", "plain"], kafka: KafkaSettings, *, group: str, topic: str) -> Intake:
    """Not started. `topic` is the one of requests."""
    match name:
        case "faust":
            from streams.intake.faust import FaustIntake

            return FaustIntake(kafka, group=group, topic=topic)
        case "plain":
            from streams.intake.plain import PlainIntake

            return PlainIntake(kafka, group=group, topic=topic)
