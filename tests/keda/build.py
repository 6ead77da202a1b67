"""KEDA's own scalers as a program: three unmodified files of its module, laid over a folder of ours when it is built.

    python -m tests.keda.build      builds it, so that no test has to wait for that

All of KEDA's scalers are one Go package of 60 clients; these three files compile in a third of the time.
"""

import json
import sys
from pathlib import Path

from tests.golang import BUILT, GoMissing, build, module_folder

KEDA = "github.com/kedacore/keda/v2"
_SOURCE = Path(__file__).parent / "probe"
_FILES = ("scaler.go", "kafka_scaler.go", "external_scaler.go")


def probe_program() -> Path:
    """Raises GoMissing."""
    keda = module_folder(_SOURCE, KEDA)
    laid_over = {str(_SOURCE / "scalers" / name): str(keda / "pkg" / "scalers" / name) for name in _FILES}
    BUILT.mkdir(parents=True, exist_ok=True)
    overlay = BUILT / "keda-probe.json"
    overlay.write_text(json.dumps({"Replace": laid_over}), encoding="utf-8")
    return build(_SOURCE, ".", "keda-probe", overlay=overlay)


if __name__ == "__main__":
    try:
        print(probe_program())
    except GoMissing as missing:
        sys.exit(str(missing))
