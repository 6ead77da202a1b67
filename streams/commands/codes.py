"""`kiln admission codes`: the tables of docs/admission.md, written from what admission says."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from admission.codes import DEAD_LETTERS, REJECTIONS, Code, bounds
from schemas.errors import CommandError, told

PAGE = Path("docs/admission.md")
_BEGIN, _END = "<!-- written by `kiln admission codes` -->\n", "<!-- end -->\n"


def tables() -> str:
    """Markdown: rejections, those that are reserved, dead letters."""
    said = {name: code for name, code in REJECTIONS.items() if code.stages}
    reserved = [f"`{name}`" for name in REJECTIONS if name not in said]
    again = [f"`{name}`" for name, code in said.items() if code.passes_later]
    return "\n".join(
        [
            "### Rejections",
            "",
            *_table(said.items(), "stage"),
            "",
            f"The same request may pass later, under a new request id: {', '.join(again)}.",
            "",
            *([f"Reserved, and said by no stage yet: {', '.join(reserved)}.", ""] if reserved else []),
            "### Dead letters",
            "",
            *_table(DEAD_LETTERS.items()),
            "",
        ]
    )


def _table(codes: Iterable[tuple[str, Code]], *more: str) -> list[str]:
    heads = ("code", "cause", "cure", "bounded by", *more)
    rows = [
        (f"`{name}`", code.cause, code.cure, ", ".join(bounds(code)), *([", ".join(code.stages)] if more else []))
        for name, code in codes
    ]
    return [f"| {' | '.join(cells)} |" for cells in (heads, ("---",) * len(heads), *rows)]


def page_with(text: str) -> str:
    """`text` with its tables as the code has them. Raises ValueError where they have no place in it."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"no place for the tables; add the lines {_BEGIN.strip()} and {_END.strip()}")
    return f"{before}{begin}\n{tables()}\n{end}{after}"


def codes(
    page: Annotated[Path, typer.Argument(help="The page that has the tables.")] = PAGE,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 where they differ.")] = False,
) -> None:
    """Write why admission says no into its page: each code with cause, cure and what bounds it."""
    try:
        text = page.read_text(encoding="utf-8")
        wanted = page_with(text)
        if check and text != wanted:
            raise CommandError(f"{page} differs from the code; run kiln admission codes")
        if not check:
            page.write_text(wanted, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CommandError(f"{page}: {told(error)}; name the page, or run it in the repository's root") from error
    Console().print(f"{len(REJECTIONS) + len(DEAD_LETTERS)} codes in {page}")
