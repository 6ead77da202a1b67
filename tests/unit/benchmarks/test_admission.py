"""What bench-admission asks of its peers is what admission does, and a ratio that is missed fails the run."""

from pathlib import Path

import pytest

from schemas.partition import partition_of
from schemas.work import decode_work
from tests.benchmarks.admission.__main__ import COPY, FAUST, PLAIN, VALIDATING, measures_of
from tests.benchmarks.admission.apps.door import Door
from tests.benchmarks.admission.cpu import Cpu
from tests.benchmarks.admission.measuring import Figures
from tests.benchmarks.admission.peers import PEERS, Peer
from tests.benchmarks.admission.run import CONFIGS, Takeover
from tests.benchmarks.admission.takeover import Opening
from tests.benchmarks.load import TENANTS, request
from tests.benchmarks.rates import Latency
from tests.benchmarks.report import ROOT

PARTITIONS = 4


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Door:
    (tmp_path / "tenants.yaml").write_text("default: {burst: 1000, per_second: 1000}\n", encoding="utf-8")
    monkeypatch.setenv("KILN_CONFIGS", str(ROOT / "infra" / "configs"))
    monkeypatch.setenv("KILN_POOLS", str(ROOT / "infra" / "pools.yaml"))
    monkeypatch.setenv("KILN_TENANTS", str(tmp_path / "tenants.yaml"))
    monkeypatch.setenv("KILN_TOPICS_REQUESTS_PARTITIONS", str(PARTITIONS))
    return Door()


def _sent(number: int) -> tuple[int, bytes, bytes]:
    """Partition, key and value."""
    tenant, body = request(number, (), CONFIGS)
    return partition_of(tenant.encode(), PARTITIONS), tenant.encode(), body


def test_a_peer_gives_out_the_work_that_was_asked_for(door: Door) -> None:
    for number, config in enumerate(CONFIGS):
        partition, key, body = _sent(number)
        work = door.admit(partition, number, 1_000, key, body)
        item = decode_work(work.value)
        assert (item.request_id, item.seed, item.config.name) == (f"b{number}", number, config)
        assert work.key == item.job_id.encode()
        assert work.topic in door.work_topics
        assert dict(work.headers) == dict(item.headers())


def test_what_is_not_accepted_ends_a_peer_loudly(door: Door) -> None:
    partition, key, body = _sent(0)
    door.admit(partition, 0, 1_000, key, body)
    with pytest.raises(ValueError, match="was not accepted: Repeat"):
        door.admit(partition, 1, 1_000, key, body)


def test_records_that_come_in_the_order_of_their_keys_are_taken_by_key(door: Door) -> None:
    mine = [sent for number in range(64) if (sent := _sent(number))[0] == 0]
    keys = list(dict.fromkeys(key for _, key, _ in mine))
    assert len(keys) > 1
    for wanted in keys:
        for offset, (partition, key, body) in enumerate(mine):
            if key == wanted:
                door.admit(partition, offset, 1_000, key, body, order=key)


def test_the_tenants_are_on_all_partitions() -> None:
    assert {partition_of(tenant.encode(), PARTITIONS) for tenant in TENANTS} == set(range(PARTITIONS))


def _figures(*rates: float, beside: float = 10_000.0) -> Figures:
    return Figures(rates, (beside, beside), 1e-4, Latency(0.01, 0.02, 0.03))


TAKEOVER = Takeover(4.0, 5.0, Opening(names=100_000, seconds=2.0, reading_seconds=1.0))
CPU = Cpu(decision=50e-6, validation=5e-6)
ALL = {COPY: 20_000.0, VALIDATING: 10_000.0, PLAIN: 5_000.0, FAUST: 2_500.0} | {peer.name: 4_000.0 for peer in PEERS}


def _missed(rates: dict[str, float], *, takeover: Takeover | None = TAKEOVER, cpu: Cpu = CPU) -> set[str]:
    measures = measures_of({name: _figures(rate) for name, rate in rates.items()}, takeover, cpu)
    return {name for name, measure in measures.items() if not measure.met}


def test_a_ratio_that_is_too_small_is_missed_and_no_other() -> None:
    assert _missed(ALL) == set()
    assert _missed(ALL | {FAUST: 1_100.0}) == {"faust_to_copy"}
    assert _missed(dict.fromkeys(ALL, 2_400.0)) == {"plain_to_copy"}
    assert _missed(ALL, cpu=Cpu(decision=100e-6, validation=5e-6)) == {"validate_to_decide"}
    slow = Takeover(4.0, 5.0, Opening(names=100_000, seconds=9.0, reading_seconds=1.0))
    assert _missed(ALL, takeover=slow) == {"opening_to_reading"}


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.label)
def test_who_is_to_be_beaten_is(peer: Peer) -> None:
    rates = ALL | {peer.name: 5_001.0}
    beaten = peer.to_be_beaten
    assert _missed(rates) == ({f"plain_to_{peer.label}"} if beaten else set())


def test_a_peer_that_did_not_run_is_no_measure() -> None:
    without = {name: rate for name, rate in ALL.items() if name != PEERS[0].name}
    measures = measures_of({name: _figures(rate) for name, rate in without.items()}, TAKEOVER, CPU)
    assert f"plain_to_{PEERS[0].label}" not in measures


def test_a_share_is_of_the_loop_at_that_time() -> None:
    quiet, busy = _figures(10.0, 30.0, 20.0, beside=100.0), _figures(10.0, 30.0, 20.0, beside=40.0)
    assert (quiet.rate, quiet.share, busy.share) == (20.0, 0.2, 0.5)
    figures = {name: _figures(rate) for name, rate in ALL.items()} | {PLAIN: busy, PEERS[0].name: quiet}
    assert measures_of(figures, None, CPU)[f"plain_to_{PEERS[0].label}"].value == pytest.approx(2.5)


def test_without_a_takeover_the_rest_is_measured() -> None:
    measures = measures_of({name: _figures(rate) for name, rate in ALL.items()}, None, CPU)
    assert "opening" not in measures
    assert "plain_to_copy" in measures
