"""A busy machine makes an example slow, and that says nothing of what it shows."""

from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@pytest.fixture
def same_examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hypothesis draws constants of all modules that are imported: what a search without chance finds would depend on
    the tests that are collected beside it."""
    monkeypatch.setattr(providers, "_get_local_constants", Constants)
    providers.CONSTANTS_CACHE.cache.clear()
    yield
    providers.CONSTANTS_CACHE.cache.clear()
