"""A setting that is refused is one sentence with the variable's name, and without its value."""

import pytest
from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.errors import CommandError
from schemas.settings import read_settings


class _Kiln(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="KILN_TEST_")

    bricks: int = Field(1, ge=1)
    most: int = 10
    place: str = Field("a:1", pattern=r"^\w+:\d+$", description="host:port")
    weights: dict[str, int] = {}

    @model_validator(mode="after")
    def _relation(self) -> "_Kiln":
        if self.bricks > self.most:
            raise ValueError("bricks is above most; lower it")
        return self


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("BRICKS", "0", "KILN_TEST_BRICKS: Input should be greater than or equal to 1"),
        ("BRICKS", "11", "KILN_TEST_: bricks is above most; lower it"),
        ("PLACE", "hush", r"KILN_TEST_PLACE: String should match pattern '^\w+:\d+$' (host:port)"),
        ("WEIGHTS", "hush", 'KILN_TEST_: error parsing value for field "weights" from'),
        ("WEIGHTS", '{"a": "hush"}', "KILN_TEST_WEIGHTS: a: Input should be a valid integer"),
    ],
)
def test_a_refusal_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(f"KILN_TEST_{variable}", value)
    with pytest.raises(CommandError) as refusal:
        read_settings(_Kiln)
    assert str(refusal.value).startswith(sentence)
    assert "hush" not in str(refusal.value)
