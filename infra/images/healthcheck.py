"""A container asks its own health page: `python -m infra.images.healthcheck PORT`. Exit 0 where all is well.

Kubernetes asks from outside and does not use this; Docker and Compose cannot.
"""

import sys
import urllib.error
import urllib.request

_SECONDS = 4


def wrong(port: int) -> str | None:
    """The page's sentence, or why there is none. None: it is alive."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=_SECONDS):
            return None
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode(errors="replace").strip()
    except OSError as error:
        return f"the health page does not answer: {error}"


if __name__ == "__main__":
    sys.exit(wrong(int(sys.argv[1])))
