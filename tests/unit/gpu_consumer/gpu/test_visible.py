import pytest

from gpu_consumer.gpu.visible import Card, first_visible

A = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
B = "GPU-1a2b3c4d-0000-4106-c12f-20bd9faed9f6"
M1 = "MIG-7c1f3a10-5a5c-5b8e-9d2e-0d6a3c9b2f11"
M2 = "MIG-7c1f3a10-ffff-5b8e-9d2e-0d6a3c9b2f11"
OLD = "MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0"
CARDS = (Card(A), Card(B))
SLICED = (Card(A, (M1, M2)), Card(B))


# case GPU-08
@pytest.mark.parametrize(
    ("value", "cards", "expected"),
    [
        (None, CARDS, A),
        (None, SLICED, M1),
        ("0", CARDS, A),
        ("1", CARDS, B),
        ("1,0", CARDS, B),
        (" 1 , 0", CARDS, B),
        ("2,3", CARDS, None),
        ("0", SLICED, M1),
        (A, CARDS, A),
        (f"{B},{A}", CARDS, B),
        ("GPU-8932f937", CARDS, A),
        ("GPU-", CARDS, None),  # fits both
        ("GPU-ffffffff", CARDS, None),
        (M2, SLICED, M2),
        ("MIG-7c1f3a10-5a5c", SLICED, M1),
        ("MIG-7c1f3a10", SLICED, None),  # fits both
        ("", CARDS, None),
        ("-1", CARDS, None),
        ("NoDevFiles", CARDS, None),
        ("١", CARDS, None),  # a digit to Python, not to CUDA
        ("9" * 5000, CARDS, None),
        (f"nonsense,{A}", CARDS, None),
        ("GPU-8932F937", CARDS, None),  # as CUDA compares
        # One slice hides every whole card beside it; an entry that names nothing ends the list.
        (None, (Card(B), Card(A, (M1,))), M1),
        ("0,1", (Card(B), Card(A, (M1,))), M1),
        ("0", (Card(B), Card(A, (M1,))), B),
        (f"{B},7,{M1}", SLICED, B),
        (A, SLICED, M1),
        # A lost card keeps its place.
        ("0", (Card(""), Card(B)), ""),
        ("1", (Card(""), Card(B)), B),
        # Without NVML only what is written out is known.
        (None, (), None),
        ("0", (), None),
        (A, (), A),
        (M1, (), M1),
        (OLD, (), OLD),
        ("", (), None),
    ],
)
def test_the_first_visible_device(value: str | None, cards: tuple[Card, ...], expected: str | None) -> None:
    assert first_visible(value, cards) == expected


# Case GPU-08: the fastest first, by a measure that is CUDA's own, unless there is nothing to choose from.
@pytest.mark.parametrize(
    ("value", "cards", "expected"),
    [
        (None, CARDS, None),
        ("0", CARDS, None),
        (f"{B},0", CARDS, B),
        ("GPU-1a2b", CARDS, B),
        (None, (Card(A),), A),
        ("0", (Card(A),), A),
    ],
)
def test_an_index_means_nothing_where_the_fastest_card_is_first(
    value: str | None, cards: tuple[Card, ...], expected: str | None
) -> None:
    assert first_visible(value, cards, "FASTEST_FIRST") == expected
