"""The pulses of several engine processes as that of one engine. Pure."""

from collections.abc import Sequence

from gpu_consumer.engine.protocol import MemoryReading, Pulse


def merged(pulses: Sequence[Pulse], kind: str | None) -> Pulse:
    """What a team does whose members do this. `kind`: what it runs if any of them does.

    Those that have nothing to do could run as many of the kind as the others. `free` memory is what the one with the
    most can have: each of them is told its own part.
    """
    running = [pulse for pulse in pulses if pulse.kind is not None]
    if all(pulse.kind != kind for pulse in running):
        kind = running[0].kind if running else None
    same = [pulse for pulse in running if pulse.kind == kind]
    most = max((pulse.slots for pulse in same), default=0)
    doings = {pulse.doing for pulse in pulses}
    seconds = [pulse.step_seconds for pulse in pulses if pulse.step_seconds is not None]
    models: dict[str, None] = {}
    for pulse in sorted(pulses, key=lambda pulse: pulse.kind is not None):
        for model in pulse.models:
            models.pop(model, None)
            models[model] = None
    return Pulse(
        doing="step" if "step" in doings else "load" if "load" in doings else "nothing",
        kind=kind,
        slots=sum(pulse.slots for pulse in same) + most * (len(pulses) - len(same)),
        fill=sum(pulse.fill for pulse in same),
        steps=sum(pulse.steps for pulse in pulses),
        step_seconds=max(seconds, default=None),
        silent_seconds=max(pulse.silent_seconds for pulse in pulses),
        models=tuple(models),
        memory=MemoryReading(
            allocated=sum(pulse.memory.allocated for pulse in pulses),
            reserved=sum(pulse.memory.reserved for pulse in pulses),
            predicted=sum(pulse.memory.predicted for pulse in pulses),
            free=max(pulse.memory.free for pulse in pulses),
        ),
        made={key: steps for pulse in pulses for key, steps in pulse.made.items()},
    )
