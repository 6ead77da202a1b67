"""What an option needs, looked up before anything is loaded."""

import subprocess
import sys
from importlib import util
from importlib.machinery import ModuleSpec
from typing import Any

import pytest

from gpu_consumer.models import backends
from gpu_consumer.models.backends import BackendMissing, check_backends
from gpu_consumer.models.digests import ModelUnavailable
from tests.unit.schemas.test_config import config
from tests.unit.schemas.test_load_options import CHOSEN, DIGEST


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The modules that seem to be there; empty at first."""
    found: set[str] = set()
    monkeypatch.setattr(backends, "find_spec", lambda name: ModuleSpec(name, None) if name in found else None)
    return found


@pytest.mark.parametrize(
    ("changes", "device", "needs", "cure"),
    [
        ({"loras": [{"name": "ink", "digest": DIGEST}]}, "cpu", "peft", r"promptkiln\[loras\]"),
        ({"offload": "model", "batching": "whole"}, "cpu", "accelerate", r"promptkiln\[offload\]"),
        ({"offload": "sequential", "batching": "whole"}, "cuda", "accelerate", r"promptkiln\[offload\]"),
        ({"attention": "xformers"}, "cuda", "xformers", r"promptkiln\[xformers\]"),
        ({"compile": {"backend": "tensorrt"}}, "cuda", "torch_tensorrt", "install the release of it"),
        ({"compile": {"backend": "inductor"}}, "cuda", "triton", "install the release of it"),
    ],
)
def test_what_is_not_installed_is_said_with_the_cure_and_what_is_passes(
    installed: set[str], changes: dict[str, Any], device: str, needs: str, cure: str
) -> None:
    """Case DIF-25: at the start, not at the first request."""
    wish = config(**changes)
    with pytest.raises(BackendMissing, match=f"sketch@1 cannot run here: .*{cure}.*or retire this version"):
        check_backends(wish, device)
    installed.add(needs)
    if needs != "triton":  # the machine of this test may have no compiler
        check_backends(wish, device)


@pytest.mark.parametrize(
    "changes",
    [
        {"attention": "xformers"},
        {"compile": {"backend": "tensorrt"}},
        {"offload": "sequential", "batching": "whole"},
    ],
)
def test_what_needs_a_card_is_refused_on_a_cpu(installed: set[str], changes: dict[str, Any]) -> None:
    installed |= {"xformers", "torch_tensorrt", "accelerate"}
    with pytest.raises(BackendMissing, match="set KILN_GPU_DEVICE to cuda"):
        check_backends(config(**changes), "cpu")


@pytest.mark.parametrize("changes", [{}, {"vae_slicing": True, "vae_tiling": True}, {"compile": {"backend": "eager"}}])
def test_what_needs_nothing_passes(installed: set[str], changes: dict[str, Any]) -> None:
    assert not installed
    check_backends(config(**changes), "cpu")


def test_a_compiler_is_looked_for_by_its_own_name_too(installed: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    wish = config(compile={"backend": "inductor"})
    monkeypatch.setattr("sysconfig.get_path", lambda _: "/nowhere")
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/mine" if name == "mine" else None)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(BackendMissing, match=r"install g\+\+, or name one in CXX"):
        check_backends(wish, "cpu")
    monkeypatch.setenv("CXX", "mine")
    with pytest.raises(BackendMissing, match="install python3-dev"):
        check_backends(wish, "cpu")


def test_it_is_a_model_that_cannot_be_served_here() -> None:
    assert issubclass(BackendMissing, ModelUnavailable)


def test_looking_does_not_import_torch() -> None:
    assert util.find_spec("torch") is not None
    script = (
        "import sys; from gpu_consumer.models.backends import BackendMissing, check_backends\n"
        "from tests.unit.schemas.test_load_options import CHOSEN, config\n"
        "for changes in CHOSEN.values():\n"
        "    try: check_backends(config(**changes), 'cuda')\n"
        "    except BackendMissing: pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert len(CHOSEN) > 1
    subprocess.run([sys.executable, "-c", script], check=True)
