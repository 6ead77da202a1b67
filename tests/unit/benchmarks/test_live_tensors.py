import pytest
import torch

from tests.benchmarks.memory.live import LiveTensors
from tests.benchmarks.memory.stress import CONCURRENCY, WORDS, Cell, Matrix


def test_what_is_made_counts_until_it_is_gone_and_views_count_nothing() -> None:
    before = torch.ones(1000)
    with LiveTensors() as live:
        a = before + 1
        assert live.now == 4000
        b = a.view(10, 100).t()[:5]
        c = before.view(10, 100)
        assert live.now == 4000
        (d, e), f = torch.ones(100).chunk(2), torch.cat([a, a])
        assert live.now == 4000 + 400 + 8000
        del f, a
        assert live.now == 4000 + 400  # b is a view of a
        del b, d
        assert live.now == 400
    del e, c
    assert (live.now, live.peak) == (0, 12_400)


def test_the_matrix_tells_how_far_it_is_off() -> None:
    cells = [Cell("sd15", 64, words, n) for words in WORDS for n in CONCURRENCY]
    exact = Matrix({cell: [1000 + 500 * cell.concurrency] * 2 for cell in cells})
    assert (exact.apart, exact.too_low) == (0, 0)
    heavier = Matrix({cell: [1000, 1000 + cell.words] for cell in cells})
    assert heavier.apart == pytest.approx(0.12)
    hollow = Matrix({cell: [1000 + (600 if cell.concurrency == 4 else 0)] for cell in cells})
    assert hollow.too_low > 0.5
