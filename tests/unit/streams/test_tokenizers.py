"""Tokens counted as the GPU consumer's own tokenizers count them, without what they need."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpu_consumer.models.tokenizer import clip_tokenizer, t5_tokenizer
from schemas.catalogue import ConfigCatalogue
from schemas.errors import CatalogueError
from streams.tokenizers import load_counters, not_counted
from tests.unit.admission.scene import config_file

PROMPTS = [
    "", " ", "a red circle", "A RED  circle,\n with\ta moon", "it's o'clock, isn't it? 12345", "naïve Café", "нет",
    "日本語の絵", "👨\u200d👩\u200d👧 family", "e\u0301", "<|endoftext|> <|startoftext|> <|endoftext|>", "ﬁne ① ﷺ",
    "\u200b", "a" * 300, "the cat " * 120,
]  # fmt: skip


@pytest.fixture(scope="module")
def clip() -> Any:
    return clip_tokenizer()


@pytest.fixture
def models(tmp_path: Path, clip: Any) -> Callable[..., Path]:
    def make(name: str, encoders: dict[str, Any], *, index: dict[str, Any] | None = None) -> Path:
        for folder, tokenizer in encoders.items():
            tokenizer.save_pretrained(tmp_path / name / folder)
        if index is not None:
            (tmp_path / name / "model_index.json").write_text(json.dumps(index), encoding="utf-8")
        return tmp_path

    return make


def catalogue(*models: str, family: str = "sd15") -> ConfigCatalogue:
    more: dict[str, Any] = {"scheduler": "flow-match-euler"} if family == "sd3" else {}
    digest = "sha256:" + "0" * 64
    return ConfigCatalogue(
        config_file(f"c-{name}", family=family, model={"name": name, "digest": digest}, **more) for name in models
    )


def split_in_two(folder: Path) -> None:
    """As the published models have it: vocab.json and merges.txt, and no tokenizer.json."""
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    merges = "\n".join(" ".join(pair) for pair in model["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    (folder / "tokenizer.json").unlink()


@pytest.mark.parametrize("form", ["tokenizer.json", "vocab.json and merges.txt"])
def test_tokens_are_those_of_transformers(models: Callable[..., Path], clip: Any, form: str) -> None:
    folder = models("tiny", {"tokenizer": clip})
    if form != "tokenizer.json":
        split_in_two(folder / "tiny" / "tokenizer")
    (encoder,) = load_counters(folder, catalogue("tiny"))["tiny"].encoders
    assert (encoder.read, encoder.marks) == (77, 2)
    draw = random.Random(5)
    noise = [chr(draw.choice([draw.randint(32, 126), draw.randint(160, 0x2FFF)])) for _ in range(3000)]
    for prompt in (*PROMPTS, *("".join(noise[start : start + 60]) for start in range(0, 3000, 60))):
        assert encoder.count(prompt) == len(clip(prompt).input_ids), prompt


def test_a_model_with_t5_is_read_as_far_as_its_family_says(models: Callable[..., Path], clip: Any) -> None:
    """Case DIF-04."""
    t5 = t5_tokenizer()
    index = {"text_encoder": ["t", "C"], "text_encoder_2": ["t", "C"], "text_encoder_3": ["t", "T"]}
    folder = models("big", {"tokenizer": clip, "tokenizer_2": clip, "tokenizer_3": t5}, index=index)
    counter = load_counters(folder, catalogue("big", family="sd3"))["big"]
    assert [encoder.read for encoder in counter.encoders] == [77, 77, 256]
    assert counter.longest.count("a red circle") == len(t5("a red circle").input_ids)
    assert counter.too_many("the cat " * 100) is None
    assert counter.too_many("the cat " * 150) == "300 tokens, and the model reads 255 (256 with its 1 marks)"


def test_an_encoder_that_was_left_out_reads_nothing(models: Callable[..., Path], clip: Any) -> None:
    index = {"text_encoder": ["t", "C"], "text_encoder_2": ["t", "C"], "text_encoder_3": [None, None]}
    folder = models("slim", {"tokenizer": clip, "tokenizer_2": clip, "tokenizer_3": t5_tokenizer()}, index=index)
    assert len(load_counters(folder, catalogue("slim", family="sd3"))["slim"].encoders) == 2


def test_models_whose_folder_is_not_here_are_named_once(
    models: Callable[..., Path], clip: Any, caplog: pytest.LogCaptureFixture
) -> None:
    folder, configs = models("tiny", {"tokenizer": clip}), catalogue("tiny", "gone", "lost")
    counters = load_counters(folder, configs)
    assert [*counters] == ["tiny"]
    assert not_counted(configs, counters) == ["gone", "lost"]
    (line,) = caplog.messages
    assert "gone, lost" in line


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("tokenizer.json", "{}", "is no tokenizer"),
        ("tokenizer_config.json", '{"model_max_length": 1e30}', "does not say how much"),
        ("tokenizer_config.json", "[1]", "is no JSON object"),
        ("tokenizer_config.json", "{", "cannot be read"),
    ],
)
def test_a_folder_that_is_no_tokenizer_is_said(
    models: Callable[..., Path], clip: Any, name: str, content: str, problem: str
) -> None:
    folder = models("tiny", {"tokenizer": clip})
    (folder / "tiny" / "tokenizer" / name).write_text(content, encoding="utf-8")
    with pytest.raises(CatalogueError, match=problem):
        load_counters(folder, catalogue("tiny"))


def test_a_folder_of_tokenizers_alone_is_enough(models: Callable[..., Path], clip: Any, tmp_path: Path) -> None:
    folder = models("tiny", {"tokenizer": clip, "tokenizer_2": clip})
    shutil.copytree(folder / "tiny", tmp_path / "copy" / "tiny")
    assert len(load_counters(tmp_path / "copy", catalogue("tiny", family="sdxl"))["tiny"].encoders) == 2


def test_one_tokenizer_serves_many_threads(models: Callable[..., Path], clip: Any) -> None:
    """Case DIF-02: one whose truncation is set by every call is "already borrowed"; ours is set once."""
    counter = load_counters(models("tiny", {"tokenizer": clip}), catalogue("tiny"))["tiny"]
    with ThreadPoolExecutor(16) as threads:
        found = [*threads.map(lambda n: counter.longest.count("a cat " * (n % 50)), range(4000))]
    assert found == [2 * (n % 50) + 2 for n in range(4000)]


def test_neither_torch_nor_transformers_is_needed() -> None:
    script = "import sys, streams.tokenizers; print(*{'torch', 'transformers', 'huggingface_hub'} & {*sys.modules})"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
