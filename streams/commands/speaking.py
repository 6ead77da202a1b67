"""How a command speaks for a tenant: signed or not, in a topic of the tenant's own or in the one of all."""

from pathlib import Path
from typing import Annotated

import typer

from schemas.errors import CatalogueError, CommandError
from schemas.signature import SigningKey, read_key

Sign = Annotated[
    Path | None,
    typer.Option(envvar="KILN_SUBMIT_SIGN", help="A file with the tenant's secret, named after its key id."),
]
OwnTopic = Annotated[
    bool, typer.Option(envvar="KILN_SUBMIT_OWN_TOPIC", help="Write to the tenant's own requests topic.")
]


def signing_key(path: Path | None) -> SigningKey | None:
    """Raises CommandError where the file cannot be read, or holds no secret."""
    try:
        return None if path is None else read_key(path)
    except CatalogueError as error:
        raise CommandError(str(error)) from error
