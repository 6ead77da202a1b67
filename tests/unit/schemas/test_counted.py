"""One of a thing is no two of them."""

from schemas.counted import counted


def test_one_is_one() -> None:
    assert [counted(n, "model") for n in (0, 1, 2, 0.5, 1.0, 10_000_000)] == [
        "0 models", "1 model", "2 models", "0.5 models", "1 model", "10,000,000 models",
    ]  # fmt: skip
