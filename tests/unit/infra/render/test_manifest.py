import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from infra.render.manifest import _Plain, object_name, to_yaml


@pytest.mark.parametrize(
    "text", ["1e3", "y", "N", "0x1F", "1_000", "12345678e9012345", "true", "null", "08", "1:30", ""]
)
def test_a_text_that_another_reader_of_yaml_takes_for_something_else_is_quoted(text: str) -> None:
    """Kubernetes reads YAML by rules of its own: 1e3 is a number there."""
    assert to_yaml([{"key": text}]) == f"---\nkey: '{text}'\n"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40).map(lambda text: f"{text}\n{text}"))
@example("  a\nb\n")
@example("\n\n a: b")
@example("a \nb")
@example("a\r\nb\u2028c\x85d\te")
def test_a_text_of_lines_is_read_as_it_was(text: str) -> None:
    assert yaml.safe_load(to_yaml([{"file": text}])) == {"file": text}


def test_a_file_in_a_file_can_be_read_by_a_person() -> None:
    assert to_yaml([{"pools.yaml": "pools:\n  a: 1  # one\n"}]) == "---\npools.yaml: |\n  pools:\n    a: 1  # one\n"


def test_two_hundred_pools_are_no_minute() -> None:
    """Nearly all the time of rendering is that of the emitter, and the one in Python takes twenty times as long."""
    assert issubclass(_Plain, yaml.CSafeDumper)


def test_a_list_that_stands_twice_is_written_twice() -> None:
    shared = ["a"]
    assert "*" not in to_yaml([{"one": shared, "two": shared}])


@pytest.mark.parametrize("name", ["kiln.requests", "kiln-admission", "a"])
def test_a_name_that_kubernetes_takes_stays(name: str) -> None:
    assert object_name(name) == name


def test_names_that_kubernetes_refuses_stay_apart() -> None:
    names = {object_name(name) for name in ("Kiln", "kiln_", "kiln", "-kiln", "kiln..x", "___")}
    assert len(names) == 6
    assert object_name("Kiln.Requests").startswith("kiln-requests-")
