"""Does the model read the prompt to its end? A model reads tokens, and leaves out what is beyond its last place."""

from admission.draft import Draft, Refusal, StageResult
from admission.state import State
from admission.world import World


def tokens(draft: Draft, state: State, world: World) -> StageResult:
    """Where the settings say so. Else, or where the model's tokenizer is not here, the GPU consumer draws what the
    model reads, and the result's warnings tell what was left out."""
    del state
    counter = world.tokens.get(draft.config.model.name) if world.limits.prompt_tokens == "refuse" else None
    if counter is None:
        return None
    for field, text in (("prompt", draft.request.prompt), ("negative_prompt", draft.request.negative_prompt)):
        if (problem := counter.too_many(text)) is not None:
            return Refusal("prompt_too_long", f"{field} has {problem}; shorten it, or its end would be left out", field)
    return None
