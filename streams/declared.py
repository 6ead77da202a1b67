"""What admission decides by before anything is followed: files, settings, policies and tokenizers."""

from dataclasses import replace
from pathlib import Path

from admission.settings import AdmissionLimits
from admission.world import World
from schemas.deployment import DeploymentSettings
from schemas.settings import read_settings
from streams.policies.loading import PolicySettings, load_policies
from streams.tokenizers import load_counters
from streams.world import load_world


def declare(tokenizers: Path) -> World:
    """Raises CatalogueError, CommandError or ValueError where a file, a setting or a policy is wrong. Reading
    tokenizers takes seconds; that is done only where prompts are refused by their tokens."""
    declared = load_world(DeploymentSettings(), read_settings(AdmissionLimits))
    counting = declared.limits.prompt_tokens == "refuse"
    return replace(
        declared,
        policies=load_policies(read_settings(PolicySettings)),
        tokens=load_counters(tokenizers, declared.configs) if counting else {},
    )
