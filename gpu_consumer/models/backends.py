"""Whether what a config asks for is installed. Nothing is imported here, torch least of all: a look takes no time."""

import os
import shutil
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from gpu_consumer.models.digests import ModelUnavailable
from schemas.config import GenerationConfig

# In the order in which torch looks for them.
_COMPILERS = ("g++", "clang++", "c++")


class BackendMissing(ModelUnavailable):
    """A library or a program that an option of a config needs is not here."""


def check_backends(config: GenerationConfig, device: str) -> None:
    """Raises BackendMissing, in a sentence with the cure, for the first option of `config` that cannot run here.

    `device` is EngineSettings.device. A consumer asks at its start, for every config of its pool, since the first
    request should not be the one to find out.
    """
    for problem in _problems(config, on_card=device == "cuda"):
        raise BackendMissing(f"{config.label} cannot run here: {problem}, or retire this version")


def _problems(config: GenerationConfig, *, on_card: bool) -> Iterator[str]:
    if config.loras and not _has("peft"):
        yield "loras need peft; install promptkiln[loras]"
    if config.offload != "none" and not _has("accelerate"):
        yield f"offload: {config.offload} needs accelerate; install promptkiln[offload]"
    if config.offload == "sequential" and not on_card:
        yield "offload: sequential has nowhere to take weights from on a CPU; set KILN_GPU_DEVICE to cuda"
    if config.attention == "xformers":
        if not on_card:
            yield "attention: xformers computes on a card alone; set KILN_GPU_DEVICE to cuda"
        if not _has("xformers"):
            yield "attention: xformers needs xformers; install promptkiln[xformers], built for this torch"
    if config.compile is not None:
        yield from _compiling(config.compile.backend, on_card=on_card)


def _compiling(backend: str, *, on_card: bool) -> Iterator[str]:
    if backend == "tensorrt":
        if not on_card:
            yield "compile.backend: tensorrt makes kernels for a card alone; set KILN_GPU_DEVICE to cuda"
        if not _has("torch_tensorrt"):
            yield "compile.backend: tensorrt needs torch-tensorrt; install the release of it that is for this torch"
    if backend == "inductor":
        if on_card and not _has("triton"):
            yield "compile.backend: inductor needs triton on a card; install the release of it that is for this torch"
        if shutil.which(os.environ.get("CXX", "")) is None and not any(map(shutil.which, _COMPILERS)):
            yield "compile.backend: inductor needs a C++ compiler; install g++, or name one in CXX"
        if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
            yield "compile.backend: inductor needs the headers of Python; install python3-dev"


def _has(module: str) -> bool:
    return find_spec(module) is not None
