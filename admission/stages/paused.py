"""Is its tenant, its config or its pool paused?"""

from admission.draft import Draft, Refusal, StageResult
from admission.state import State
from admission.world import World
from schemas.control import Pause, Subject
from schemas.stops import ends_ms, in_words, of_config, of_tenant, pause_of


def paused(draft: Draft, state: State, world: World) -> StageResult:
    """New requests only: what was accepted before still runs, unless its pool is paused."""
    del state
    if not world.paused:
        return None
    found = pause_of(world.paused, (*of_tenant(draft.tenant), *of_config(draft.config)), draft.now_ms)
    return None if found is None else _refusal(*found, draft.now_ms)


def _refusal(subject: Subject, pause: Pause, now_ms: int) -> Refusal:
    field = "tenant" if subject.kind == "tenant" else "config"
    said, why = in_words(subject, "is paused"), f". Reason: {pause.reason}" if pause.reason else ""
    if pause.until is None:
        cure = "send this again under a new request id once it is resumed"
        return Refusal("paused", f"{said}; {cure}{why}", field)
    seconds = (ends_ms(pause) - now_ms) / 1000
    cure = f"send this again under a new request id in {seconds:g} s"
    return Refusal("paused", f"{said}; {cure}{why}", field, retry_after_seconds=seconds)
