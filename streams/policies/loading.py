"""Which policies judge: entry points of the group `promptkiln.policies`, chosen by a setting."""

from collections.abc import Mapping
from importlib.metadata import entry_points

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from admission.policy import Policy
from schemas.errors import CatalogueError

GROUP = "promptkiln.policies"


class PolicySettings(BaseSettings):
    """Which policies there are. What each needs it reads itself; what becomes of a failure is AdmissionLimits'."""

    model_config = SettingsConfigDict(env_prefix="KILN_ADMISSION_POLICY_", frozen=True)

    plugins: str = Field(
        default="list",
        description=f"Names of entry points of the group {GROUP}, by commas, in the order in which they judge; empty: "
        "none, and every prompt passes.",
    )


def load_policies(settings: PolicySettings) -> Mapping[str, Policy]:
    """The chosen ones by name, those that have nothing to judge left out.

    An entry point is called without arguments and gives a Policy or None. Raises CatalogueError where one is not
    installed, stands twice, or raises.
    """
    found: dict[str, Policy] = {}
    names = [name.strip() for name in settings.plugins.split(",") if name.strip()]
    if len({*names}) < len(names):
        raise CatalogueError("KILN_ADMISSION_POLICY_PLUGINS names a policy twice; name it once")
    for name in names:
        policy = _load(name)
        if policy is not None:
            found[name] = policy
    return found


def _load(name: str) -> Policy | None:
    there = entry_points(group=GROUP)
    named = {entry.value: entry for entry in there if entry.name == name}
    if not named:
        known = ", ".join(sorted({entry.name for entry in there})) or "none"
        raise CatalogueError(
            f"no content policy {name!r} is installed; KILN_ADMISSION_POLICY_PLUGINS may name: {known}"
        )
    if len(named) > 1:
        raise CatalogueError(f"the content policy {name!r} is installed twice, as {' and '.join(named)}; remove one")
    (entry,) = named.values()
    try:
        policy: Policy | None = entry.load()()
    except CatalogueError:
        raise
    except Exception as error:
        raise CatalogueError(
            f"the content policy {name!r} ({entry.value}) does not start: {type(error).__name__}: {error}"
        ) from error
    if policy is not None and not callable(getattr(policy, "judge", None)):
        raise CatalogueError(f"the content policy {name!r} ({entry.value}) has no judge(); see docs/admission.md")
    return policy
