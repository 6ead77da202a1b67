import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpu_consumer.commands.models import app
from gpu_consumer.models.digests import ModelUnavailable, model_digest, verify
from gpu_consumer.models.tiny import TINY, make_tiny
from gpu_consumer.models.tokenizer import (
    CONTEXT,
    T5_CONTEXT,
    WORD_END,
    WORDS,
    clip_tokenizer,
    encode,
    merges,
    t5_tokenizer,
)
from gpu_consumer.models.weights import uniform
from schemas.errors import CommandError

# Configurations name these: a change here is a new version of each configuration that uses the model.
PUBLISHED = {
    "tiny-sd15": "sha256:adbe09957af11f864c42cdf86ffcc3f338bb7fef96c0c38b7638a7eadad1690e",
    "tiny-sdxl": "sha256:81500d6d2459abda8ec60a2ea6626b69952389737db6654cfb930cc35a5be95c",
    "tiny-sd3": "sha256:ae12ccc35ee69a898b6ae1f9dd15ad702aa28259c062b466350b843c341a9dd5",
    "tiny-animatediff": "sha256:d3d5dc0d74d2746cdcf17df067122e212cce17f44e368ad448c56a33c1b1b5f1",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models")
    assert make_tiny(directory) == PUBLISHED
    return directory


def test_the_numbers_of_a_name_never_change() -> None:
    numbers = uniform("a name", 4)
    assert hashlib.sha256(uniform("a name", 1000).astype(np.float32).tobytes()).hexdigest() == (
        "0d984ccfc2d1adcecc8afd7e9442cdcd310e0b11b3d250b4301379b4a8a89cae"
    )
    assert not np.array_equal(numbers, uniform("another", 4))


def test_made_again_beside_itself_nothing_changes(tiny: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in tiny.rglob("*")}
    assert make_tiny(tiny) == PUBLISHED
    assert {path: path.stat().st_mtime_ns for path in tiny.rglob("*")} == before


def test_a_damaged_or_empty_folder_is_made_anew(tmp_path: Path) -> None:
    make_tiny(tmp_path)
    (tmp_path / "tiny-sd15" / "model_index.json").write_text("{}")
    shutil.rmtree(tmp_path / "tiny-sdxl")
    (tmp_path / "tiny-sdxl").mkdir()
    assert model_digest(tmp_path / "tiny-sd15") != PUBLISHED["tiny-sd15"]
    make_tiny(tmp_path)
    assert {name: model_digest(tmp_path / name) for name in TINY} == PUBLISHED
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(TINY)


def test_a_folder_is_small_and_holds_safetensors_and_no_path(tiny: Path) -> None:
    for name in TINY:
        files = [path for path in (tiny / name).rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) < 4 << 20
        assert {path.suffix for path in files} == {".json", ".safetensors"}
        assert not any(str(tiny).encode() in path.read_bytes() for path in files)


def test_verify_names_both_digests_and_the_cure(tiny: Path) -> None:
    verify(tiny / "tiny-sd15", PUBLISHED["tiny-sd15"])
    with pytest.raises(ModelUnavailable, match=r"is sha256:.*but sha256:.*kiln models digest"):
        verify(tiny / "tiny-sd15", PUBLISHED["tiny-sdxl"])
    with pytest.raises(ModelUnavailable, match="kiln models make-tiny"):
        verify(tiny / "absent", PUBLISHED["tiny-sdxl"])


def test_hidden_files_are_no_part_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text("{}")
    digest = model_digest(tmp_path)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "lock").write_text("x")
    assert model_digest(tmp_path) == digest
    (tmp_path / "README.md").write_text("x")
    assert model_digest(tmp_path) != digest


def test_the_commands_say_one_sentence_and_mean_their_exit_codes(tiny: Path) -> None:
    run = CliRunner().invoke
    assert run(app, ["digest", str(tiny / "tiny-sd15")]).output.strip() == PUBLISHED["tiny-sd15"]
    assert run(app, ["verify", str(tiny / "tiny-sd15"), "--digest", PUBLISHED["tiny-sd15"]]).exit_code == 0
    refused = run(app, ["verify", str(tiny / "tiny-sd15"), "--digest", PUBLISHED["tiny-sdxl"]])
    assert isinstance(refused.exception, CommandError)
    assert refused.exception.code == 1
    assert "was asked for" in str(refused.exception)


@pytest.mark.parametrize("prompt", ["a red circle on the left", "日本の城 🏯", "", "line\nbreak", "ЁЛКА, ёлка!"])
def test_a_prompt_in_any_script_has_tokens_and_none_is_unknown(prompt: str) -> None:
    tokenizer = clip_tokenizer()
    ids = tokenizer(prompt).input_ids
    assert ids[0] == tokenizer.bos_token_id
    assert ids[-1] == tokenizer.eos_token_id
    assert tokenizer.eos_token_id not in ids[1:-1]
    text = tokenizer.decode(ids, skip_special_tokens=True)
    assert "".join(text.split()) == "".join(prompt.lower().split())


def test_each_word_is_one_token_and_the_context_is_clips() -> None:
    tokenizer = clip_tokenizer()
    for word in WORDS:
        assert len(tokenizer(word).input_ids) == 3, word
    assert len(tokenizer("a red circle on the left").input_ids) == 8
    assert tokenizer.model_max_length == CONTEXT == 77


@given(st.lists(st.text("abc", min_size=1, max_size=6), unique=True, max_size=12))
def test_any_vocabulary_gets_one_token_a_word(vocabulary: list[str]) -> None:
    ranks = {pair: rank for rank, pair in enumerate(merges(vocabulary))}
    for word in vocabulary:
        assert encode([*word[:-1], word[-1] + WORD_END], ranks) == [word + WORD_END]


def test_t5_hears_the_same_words_and_spells_the_others() -> None:
    tokenizer = t5_tokenizer()
    for word in WORDS:
        assert len(tokenizer(word).input_ids) == 2, word
    ids = tokenizer("a red dodecahedron").input_ids
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == "a red dodecahedron"
    assert tokenizer("").input_ids == [tokenizer.eos_token_id]
    assert tokenizer.model_max_length == T5_CONTEXT
