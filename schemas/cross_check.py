"""What one file cannot tell: whether the configurations of a deployment fit each other, and its pools."""

from collections.abc import Collection, Iterator

from schemas.catalogue import DEFAULT_CHANNEL, ConfigCatalogue
from schemas.config import GenerationConfig
from schemas.config_file import ConfigFile
from schemas.counted import counted


def siblings(catalogue: ConfigCatalogue) -> list[str]:
    """A sentence for each cheaper sibling that could not stand in. Prices fall from sibling to sibling, so there is no
    circle of them."""
    return [
        f"{config.label} degrades to {label}, {fault}"
        for file in catalogue.files.values()
        for version, label in sorted(file.degrades_to.items())
        if not (config := file.versions[version]).retired
        and (fault := _unfit(config, catalogue.labelled(label))) is not None
    ]


def _unfit(config: GenerationConfig, sibling: GenerationConfig | None) -> str | None:
    if sibling is None:
        return "which does not exist; add it, or name another"
    if sibling.retired:
        return "which is retired; name another"
    if sibling.price.gpu_seconds >= config.price.gpu_seconds:
        return (
            f"which is not cheaper ({sibling.price.gpu_seconds:g} GPU-seconds a picture, not less than "
            f"{config.price.gpu_seconds:g}); name a cheaper one, or correct the prices"
        )
    if (sibling.frames > 1) != (config.frames > 1):
        return "and one of them is a video and the other a picture; name one of its own kind"
    if sibling.max_images < config.max_images:
        return f"which allows {counted(sibling.max_images, 'image')} and not {config.max_images}; raise its max_images"
    return None


def channels(catalogue: ConfigCatalogue) -> list[str]:
    """A sentence for each channel that leads to nothing in use, and for each config without the default one."""
    return [problem for file in catalogue.files.values() for problem in _channels(file)]


def _channels(file: ConfigFile) -> Iterator[str]:
    if not any(not config.retired for config in file.versions.values()):
        return  # it is at its end, and whoever asks for it is told so
    if DEFAULT_CHANNEL not in file.channels:
        yield f"{file.name} has no channel {DEFAULT_CHANNEL!r}, which a request without a version gets; add it"
    for channel, weights in file.channels.items():
        if not any(weight > 0 and file.in_use(version) for version, weight in weights.items()):
            yield (
                f"{file.name}:{channel} leads to retired versions alone; point it to one in use, or declare that "
                "compatible"
            )


def pools(catalogue: ConfigCatalogue, known: Collection[str]) -> list[str]:
    """A sentence for each version in use whose pool is not declared."""
    return [
        f"{config.label} runs in pool {config.pool!r}, which is not declared; known are: {', '.join(sorted(known))}"
        for file in catalogue.files.values()
        for config in file.versions.values()
        if not config.retired and config.pool not in known
    ]
