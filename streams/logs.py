"""What a service says on stderr: its own few lines, and the libraries' only where they matter."""

import logging

_OURS = ("admission", "gpu_consumer", "streams")


def log_to_stderr(*, verbose: bool) -> None:
    """Our own lines from INFO on; `verbose` adds those of the libraries.

    While a broker is down the clients log a hundred lines a second, which would hide the few of ours (case FST-08).
    """
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if verbose:
        return
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)
