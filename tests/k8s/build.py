"""The programs of the control plane: Kubernetes' and KEDA's own, built from Go modules, and Debian's etcd.

python -m tests.k8s.build      builds what is not there yet: a quarter of an hour on two quiet cores, then seconds
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.golang import BUILT, GoMissing, build, module_folder
from tests.keda.build import KEDA

_SOURCE = Path(__file__).parent / "plane"
_ETCD = BUILT / "etcd"
_SECONDS_MAX = 300


@dataclass(frozen=True, slots=True)
class Programs:
    etcd: Path
    apiserver: Path
    controllers: Path
    operator: Path
    adapter: Path
    definitions: Path  # of KEDA's resources: a folder of YAML


def programs() -> Programs:
    """Raises GoMissing, with the cure, where one of them cannot be had here."""
    for tool in ("go", "openssl"):
        if shutil.which(tool) is None:
            raise GoMissing(f"this needs {tool}, which is not installed")
    return Programs(
        etcd=_etcd(),
        apiserver=_built("k8s.io/kubernetes/cmd/kube-apiserver"),
        controllers=_built("k8s.io/kubernetes/cmd/kube-controller-manager"),
        operator=_built(f"{KEDA}/cmd/operator", "keda-operator"),
        adapter=_built(f"{KEDA}/cmd/adapter", "keda-adapter"),
        definitions=module_folder(_SOURCE, KEDA) / "config" / "crd" / "bases",
    )


def _built(package: str, name: str | None = None) -> Path:
    return build(_SOURCE, package, name or package.rpartition("/")[2])


def _etcd() -> Path:
    """The one that is installed, else that of Debian's package, unpacked beside the others."""
    installed = shutil.which("etcd")
    if installed:
        return Path(installed)
    program = _ETCD / "usr" / "bin" / "etcd"
    if not program.exists():
        if shutil.which("apt-get") is None:
            raise GoMissing("this needs etcd, which is not installed, and there is no apt-get to fetch it with")
        _ETCD.mkdir(parents=True, exist_ok=True)
        _run("apt-get", "download", "etcd-server")
        (package,) = _ETCD.glob("etcd-server_*.deb")
        _run("dpkg-deb", "-x", package.name, ".")
        package.unlink()
    return program


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=_ETCD, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
    if done.returncode:
        raise GoMissing(f"this needs etcd, and `{' '.join(command)}` failed: {done.stderr.strip()[-300:]}")


if __name__ == "__main__":
    try:
        print(programs())
    except GoMissing as missing:
        sys.exit(str(missing))
