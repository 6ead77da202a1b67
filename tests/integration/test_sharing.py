"""One copy of the weights for two processes' worth of residence, over real (tiny) pipelines on the CPU."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gpu_consumer.engine.device import CpuDevice
from gpu_consumer.engine.pipeline import PipelineEngine
from gpu_consumer.engine.protocol import Item
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.sharing import Shelf
from gpu_consumer.models.digests import ModelUnavailable
from gpu_consumer.models.size import weights_bytes
from schemas.config import GenerationConfig
from tests.tiny import models, tiny_config
from tests.whole import run_whole

__all__ = ["models"]

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

ROOMY = 1 << 30


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def board() -> Iterator[int]:
    descriptor = os.memfd_create("kiln-board")
    yield descriptor
    os.close(descriptor)


def residence(models: Path, board: int | None, memory_bytes: int = ROOMY, **different: int) -> Residence:
    """One of two workers, or one that is alone."""
    workers = 1 if board is None else 2
    shelf = None if board is None else Shelf(board)
    return Residence(CpuDevice(memory_bytes, workers), models, ROOMY, shelf=shelf, workers=workers, **different)


def announce(kept: Residence) -> None:
    assert kept._shelf is not None
    kept._shelf.announce()


def picture(kept: Residence, config: GenerationConfig) -> bytes:
    engine = PipelineEngine(kept._device, kept)
    return run_whole(engine, config, Item("a", "a red circle", "", 7)).pictures[0].data


def mappings() -> set[tuple[str, str]]:
    """(address, inode) of all shared weights that this process has before it."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if "kiln-weights" in line]
    return {(line[0], line[4]) for line in lines}


@pytest.mark.parametrize("family", ["sd15", "sdxl", "sd3", "animatediff"])
def test_what_is_lent_and_what_is_borrowed_draw_as_what_is_alone(models: Path, board: int, family: str) -> None:
    config = tiny_config(models, family)
    alone = picture(residence(models, None), config)
    before = mappings()
    lender = residence(models, board)
    assert picture(lender, config) == alone
    lent = mappings() - before
    announce(lender)
    borrower = residence(models, board)
    assert picture(borrower, config) == alone
    borrowed = mappings() - before - lent
    assert lent
    assert {inode for _, inode in borrowed} == {inode for _, inode in lent}


def test_a_weight_that_somebody_writes_changes_for_nobody_else(models: Path, board: int) -> None:
    config = tiny_config(models)
    lender = residence(models, board)
    weight = next(lender.take(config)[0].pipe.unet.parameters())
    announce(lender)
    borrower = residence(models, board)
    theirs = next(borrower.take(config)[0].pipe.unet.parameters())
    assert torch.equal(weight, theirs)
    theirs.data.zero_()
    assert weight.abs().sum() > 0


def test_what_was_not_announced_is_everybodys_own(models: Path, board: int) -> None:
    first, second = tiny_config(models), tiny_config(models, "sdxl")
    lender = residence(models, board)
    lender.take(first)
    announce(lender)
    before = mappings()
    lender.take(second)
    assert mappings() == before
    borrower = residence(models, board)
    borrower.take(first)
    borrowed = mappings()
    assert borrowed > before
    borrower.take(second)
    assert mappings() == borrowed


def test_offloaded_weights_are_not_shared(models: Path, board: int) -> None:
    pytest.importorskip("accelerate")
    before = mappings()
    lender = residence(models, board)
    loaded, _ = lender.take(tiny_config(models, offload="model", batching="whole"))
    assert not loaded.shared
    assert mappings() == before


def test_a_team_books_what_it_shares_once(models: Path, board: int) -> None:
    config = tiny_config(models)
    size = residence(models, None).take(config)[0].weights_bytes
    lender = residence(models, board)
    lender.take(config)
    announce(lender)
    borrower = residence(models, board)
    borrower.take(config)
    each = (ROOMY - size) // 2
    assert [one._device.free_bytes() for one in (lender, borrower)] == [each, each]
    assert [one.own_bytes for one in (lender, borrower)] == [size, 0]
    assert [one._device.reading().allocated for one in (lender, borrower)] == [size, 0]
    other = tiny_config(models, "sdxl")
    own = borrower.take(other)[0].weights_bytes
    assert borrower._device.free_bytes() == each - own
    assert lender._device.free_bytes() == each


def test_what_is_shared_never_leaves_for_another(models: Path, board: int) -> None:
    first, second, third = tiny_config(models), tiny_config(models, "sdxl"), tiny_config(models, dtype="bfloat16")
    lender = residence(models, board)
    lender.take(first)
    announce(lender)
    lender.take(second)
    assert not lender.make_room(ROOMY)
    assert lender.keys() == (first.model_key, second.model_key), "and the one in use stays"
    lender.take(third)
    assert not lender.make_room(ROOMY)
    assert lender.keys() == (first.model_key, third.model_key)


def test_a_preload_list_that_does_not_fit_is_said(models: Path, board: int) -> None:
    first, second = tiny_config(models), tiny_config(models, "sdxl")
    sizes = [weights_bytes(models / one.model.name, one.dtype) for one in (first, second)]
    lender = residence(models, board, int(1.1 * max(sizes)))
    lender.take(first)
    with pytest.raises(ModelUnavailable, match="does not fit"):
        lender.take(second)


def test_a_model_of_more_than_one_part_of_the_memory_fits_all_of_them_together(models: Path, board: int) -> None:
    config = tiny_config(models)
    memory_bytes = int(1.2 * weights_bytes(models / config.model.name, config.dtype))
    lender = residence(models, board, memory_bytes)
    lender.take(config)
    announce(lender)
    borrower = residence(models, board, memory_bytes)
    borrower.take(config)
    assert borrower._device.free_bytes() > 0


def test_a_model_that_cannot_be_loaded_is_not_lent(models: Path, board: int, tmp_path: Path) -> None:
    lender = residence(tmp_path, board)
    with contextlib.suppress(ModelUnavailable):
        lender.take(tiny_config(models))
    announce(lender)
    assert not Shelf(board).has(tiny_config(models).model_key)
