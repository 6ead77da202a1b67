"""A peer's environment is made from what the project names, extras and bounds included, and from nothing else."""

import pytest

from tests.benchmarks import environments
from tests.benchmarks.admission.peers import BESIDE
from tests.benchmarks.admission.peers import PEERS as ADMISSION_PEERS
from tests.benchmarks.batching.peers import PEERS as BATCHING_PEERS


@pytest.mark.parametrize(
    ("requirement", "package"),
    [("ray[serve]>=2.50", "ray"), ("litserve>=0.2.17", "litserve"), ("peft", "peft"), ("a-b~=1", "a-b")],
)
def test_a_requirement_is_known_by_its_package(requirement: str, package: str) -> None:
    assert environments._named(["other>=1", requirement], package) == requirement


def test_a_package_whose_name_only_begins_alike_is_another_one() -> None:
    with pytest.raises(ValueError, match="unpack"):
        environments._named(["pydantic-settings>=2.6"], "pydantic")


def test_the_project_names_every_peer() -> None:
    packages = {peer.package for peer in ADMISSION_PEERS} | {peer.package for peer in BATCHING_PEERS.values()}
    for package in packages:
        first, *rest = environments._requirements(package, BESIDE)
        assert first.startswith(package)
        assert len(rest) == len(BESIDE)
