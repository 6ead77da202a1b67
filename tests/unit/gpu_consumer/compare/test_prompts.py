"""A set of prompts in a file."""

from pathlib import Path

import pytest

from gpu_consumer.compare.prompts import PROMPTS_MAX, Prompt, read_prompts
from schemas.errors import CommandError


def test_a_line_is_a_prompt_or_a_request(tmp_path: Path) -> None:
    path = tmp_path / "prompts"
    third = '{"prompt": "three", "negative_prompt": "smoke", "seed": 1}'
    path.write_text("\n".join(("a kiln", "", "  two fires \r", third, '{"prompt": "4"}')))
    assert read_prompts(path) == [Prompt("a kiln"), Prompt("two fires"), Prompt("three", "smoke"), Prompt("4")]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\n \n", "has 0 prompts; give 1 to 200"),
        (b"x\n" * (PROMPTS_MAX + 1), "has 201 prompts"),
        (b"\xff", "cannot be read"),
        (b"fine\n{", "line 2: the body is not JSON"),
        (b'{"prompt": 1}', "line 1 has no text under 'prompt'"),
        (b'{"negative_prompt": "x"}', "line 1 has no text under 'prompt'"),
    ],
)
def test_a_wrong_file_is_a_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "prompts"
    path.write_bytes(content)
    with pytest.raises(CommandError, match=sentence) as raised:
        read_prompts(path)
    assert raised.value.code == 2
    with pytest.raises(CommandError, match="cannot be read"):
        read_prompts(tmp_path / "nothing")
