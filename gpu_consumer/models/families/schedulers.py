"""The schedulers that a config can name."""

from collections.abc import Mapping
from typing import Any

# A class of diffusers, and what the name fixes beside the model's own noise schedule.
SCHEDULERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ddim": ("DDIMScheduler", {}),
    "euler": ("EulerDiscreteScheduler", {}),
    "euler-ancestral": ("EulerAncestralDiscreteScheduler", {}),
    "dpmpp-2m": ("DPMSolverMultistepScheduler", {"algorithm_type": "dpmsolver++", "solver_order": 2}),
    "unipc": ("UniPCMultistepScheduler", {}),
    "flow-match-euler": ("FlowMatchEulerDiscreteScheduler", {}),
}


def fresh_scheduler(name: str, base: Mapping[str, Any]) -> Any:
    """A scheduler of its own for one call: its step index is state, and a shared one ends half way with an error."""
    import diffusers

    class_name, fixed = SCHEDULERS[name]
    return getattr(diffusers, class_name).from_config(dict(base), **fixed)
