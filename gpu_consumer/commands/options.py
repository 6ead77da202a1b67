"""Options that several commands with an engine have."""

from pathlib import Path
from typing import Annotated

import typer

Device = Annotated[str | None, typer.Option(help="auto, cpu or cuda; KILN_GPU_DEVICE if absent.", show_default=False)]
Models = Annotated[
    Path | None, typer.Option(help="The models directory; KILN_GPU_MODELS_DIR if absent.", show_default=False)
]
