"""What a team leaves behind. What it does: tests/contract/test_team.py."""

from pathlib import Path

from gpu_consumer.engine.team import _sweep


def test_what_torch_leaves_of_a_process_by_name_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("torch_12_34_0", "torch_12_99_1", "torch_123_4_0", "psm_12"):
        (tmp_path / name).touch()
    _sweep(12, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"torch_123_4_0", "psm_12"}
