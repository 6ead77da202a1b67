"""A picture is a function of configuration, prompt and seed, whoever shared its batch and whatever died meanwhile."""

import json
from collections import defaultdict
from collections.abc import Iterator

from tests.fault.account import Account
from tests.fault.checks.reading import name_of, readable
from tests.fault.history import Flaw, History


def check_twins(history: History, account: Account) -> Iterator[Flaw]:
    """Requests that ask for the same and got different bytes."""
    drawn: dict[str, dict[str, str]] = defaultdict(dict)
    for record, body in readable(history.results):
        asked = account.first.get(name_of(body))
        if body.get("status") != "succeeded" or asked is None:
            continue
        wish = {field: asked[1].body.get(field) for field in ("prompt", "negative_prompt")}
        for picture in body.get("artifacts", []):
            same = json.dumps([body.get("config", {}).get("hash"), wish, picture.get("seed")], sort_keys=True)
            drawn[same].setdefault(str(picture.get("sha256")), record.at)
    for same, digests in drawn.items():
        if len(digests) > 1:
            yield Flaw("picture_varies", f"{same} was drawn as {digests}")
