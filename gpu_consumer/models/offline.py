"""diffusers and transformers made quiet and kept off the network. Call before the first import of either.

Their warnings quote prompts, so that a log would have what it must not; and their errors go through our own handler,
which masks them, and not through theirs."""

import logging
import os
import warnings

# Read once, when huggingface_hub, transformers and diffusers are imported: this is why they are set and not passed.
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "DIFFUSERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",  # its threads and a fork do not go together, and a prompt needs none
}


def go_offline() -> None:
    """Set the libraries' environment in this process: no egress, no telemetry, no bars and warnings on the terminal."""
    os.environ.update(_ENVIRONMENT)
    warnings.filterwarnings("ignore", category=FutureWarning, module="diffusers")
    logging.getLogger("torch").setLevel(logging.ERROR)

    from diffusers.utils import logging as diffusers_logging
    from transformers.utils import logging as transformers_logging

    for libraries in (diffusers_logging, transformers_logging):
        libraries.set_verbosity_error()
        libraries.disable_default_handler()
        libraries.enable_propagation()
        libraries.disable_progress_bar()
