"""`kiln acls`: lines that Kafka's own command takes."""

import shlex
from pathlib import Path

import pytest

from schemas.errors import CommandError
from streams.commands.acls import acls


@pytest.fixture
def tenants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tenants.yaml"
    path.write_text("tenants: {atelier: {per_second: 1, burst: 1, topic: true}}")
    monkeypatch.setenv("KILN_TENANTS", str(path))


@pytest.mark.usefixtures("tenants")
def test_a_line_for_each_resource_of_each_role(capsys: pytest.CaptureFixture[str]) -> None:
    acls(None, "User:kiln-{role}")
    lines = capsys.readouterr().out.splitlines()
    assert "--allow-principal User:kiln-gate --operation Read --topic kiln.requests.atelier" in lines
    assert "--allow-principal User:kiln-producer-atelier --operation Write --topic kiln.requests.atelier" in lines
    assert (
        "--allow-principal User:kiln-admission --operation Write --topic kiln.work. --resource-pattern-type prefixed"
        in lines
    )
    assert (
        "--allow-principal User:kiln-gpu-consumer-default --operation Read --operation Write"
        " --topic kiln.ledger.default" in lines
    )
    assert not any("kiln.requests " in line and "producer-atelier" in line for line in lines)


@pytest.mark.usefixtures("tenants")
def test_one_role_for_a_principal_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    acls("result-reader", "User:CN=reader, O=us")
    lines = capsys.readouterr().out.splitlines()
    assert [shlex.split(line) for line in lines] == [
        ["--allow-principal", "User:CN=reader, O=us", "--operation", "Read", "--topic", topic]
        for topic in ("kiln.results", "kiln.progress")
    ]
    with pytest.raises(CommandError, match="there are: admission, keda, operator, producer, result-reader, scaler"):
        acls("nobody", "User:x")
