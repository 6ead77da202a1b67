"""One configuration with all its versions, and what leads to each of them."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.canary import Weights
from schemas.config import GenerationConfig

ChannelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Label = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}@[1-9][0-9]{0,6}$")]
Version = Annotated[int, Field(ge=1)]


def _named(body: dict[str, Any], name: Any, number: Any) -> dict[str, Any]:
    names = {"name": name, "version": number}
    for field, value in names.items():
        if str(body.get(field, value)) != str(value):
            raise ValueError(f"version {number} calls itself {field} {body[field]}; leave that out")
    return body | names


class ConfigFile(BaseModel):
    """One YAML file: every version of one configuration, and the channels that point to them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str = ""
    channels: dict[ChannelName, Weights] = Field(
        description="Each a version, or versions with weights: a request gets one of them, by the hash of its name."
    )
    compatible: dict[Version, Version] = Field(
        default_factory=dict, description="Who asks for this version gets that one, where it is missing or retired."
    )
    degrades_to: dict[Version, Label] = Field(
        default_factory=dict, description="The cheaper version, `name@version`, that may stand in under overload."
    )
    versions: dict[Version, GenerationConfig] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _name_the_versions(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("versions"), dict):
            if len({str(number) for number in data["versions"]}) < len(data["versions"]):
                raise ValueError("a version stands twice, once as a number and once as text; keep one")
            versions = {
                number: _named(body, data.get("name"), number) if isinstance(body, dict) else body
                for number, body in data["versions"].items()
            }
            return {**data, "versions": versions}
        return data

    @model_validator(mode="after")
    def _what_leads_somewhere_leads_to_a_version(self) -> Self:
        leads = [
            (f"channel {name!r} points", version) for name, weights in self.channels.items() for version in weights
        ]
        leads += [(f"compatible: {asked} leads", taken) for asked, taken in self.compatible.items()]
        for what, version in leads:
            if version not in self.versions:
                raise ValueError(f"{what} to version {version}, which is not in the file")
        if unknown := self.degrades_to.keys() - self.versions.keys():
            raise ValueError(f"degrades_to names version {min(unknown)}, which is not in the file")
        return self

    @model_validator(mode="after")
    def _compatible_comes_to_an_end(self) -> Self:
        for asked in self.compatible:
            passed, version = set[int](), asked
            while version in self.compatible:
                if version in passed:
                    raise ValueError(f"compatible: {asked} leads round in a circle; take one of its versions out")
                passed.add(version)
                version = self.compatible[version]
        return self

    def in_use(self, version: int) -> GenerationConfig | None:
        """What a request for `version` gets: that, or what is declared compatible with one that is gone."""
        config = self.versions.get(version)
        while config is None or config.retired:
            if version not in self.compatible:
                return None
            version = self.compatible[version]
            config = self.versions.get(version)
        return config
