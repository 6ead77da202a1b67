"""The fold of control comes to the same whatever the broker has compacted, and nothing that is written stops it."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from schemas.codec import encode
from schemas.control import Channel, Drop, Pause, PublishConfig, Retire, SetQuota, control_key
from schemas.tenants import Quota
from streams.control import Controls
from tests.unit.admission.scene import NOW_MS, config_file

Said = tuple[bytes, BaseModel | None]
NAMES = st.sampled_from(["sketch", "oil"])


def about(key: st.SearchStrategy[bytes], said: st.SearchStrategy[BaseModel]) -> st.SearchStrategy[Said]:
    return st.tuples(key, st.none() | said)


SAYINGS = st.lists(
    st.one_of(
        about(st.builds(control_key, st.just("pause"), st.just("tenant"), NAMES), st.builds(Pause, reason=NAMES)),
        about(st.builds(control_key, st.just("drop"), st.just("config"), NAMES), st.builds(Drop, reason=NAMES)),
        about(
            st.builds(control_key, st.just("channel"), NAMES, st.just("stable")),
            st.builds(Channel, versions=st.dictionaries(st.sampled_from([1, 2]), st.just(1.0), min_size=1)),
        ),
        about(st.builds(control_key, st.just("retire"), NAMES, st.sampled_from(["1", "2"])), st.builds(Retire)),
        about(
            st.just(control_key("config", "oil")),
            st.builds(lambda n: PublishConfig(file=config_file("oil", max_images=n)), st.sampled_from([1, 2])),
        ),
        about(
            st.builds(control_key, st.just("tenant"), NAMES),
            st.builds(lambda burst: SetQuota(quota=Quota(per_second=1, burst=burst)), st.sampled_from([1, 2])),
        ),
    ),
    max_size=12,
)


def records(sayings: list[Said]) -> list[Any]:
    return [
        SimpleNamespace(key=key, value=None if said is None else encode(said), timestamp=NOW_MS + n, offset=n)
        for n, (key, said) in enumerate(sayings)
    ]


def state(log: list[Any]) -> dict[str, Any]:
    controls = Controls()
    for record in log:
        assert controls.fold(record) is None
    names = ("paused", "dropped", "channels", "retired", "published", "allowed", "placements")
    return {name: getattr(controls, name) for name in names}


@given(SAYINGS, st.data())
def test_compaction_changes_nothing(sayings: list[Said], data: st.DataObject) -> None:
    """The broker removes records that a later one of their key has replaced, and a tombstone when they are gone."""
    log = records(sayings)
    newest = {record.key: record for record in log}
    gone = {key for key, record in newest.items() if record.value is None and data.draw(st.booleans())}
    kept = [
        record
        for record in log
        if record.key not in gone and (record is newest[record.key] or data.draw(st.booleans()))
    ]
    assert state(kept) == state(log)


@given(st.lists(st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=60)), max_size=6))
def test_whatever_is_written_there_is_folded_or_said(noise: list[tuple[bytes | None, bytes | None]]) -> None:
    controls = Controls()
    controls.fold(records([(control_key("pause", "tenant", "oil"), Pause())])[0])
    for n, (key, value) in enumerate(noise):
        record: Any = SimpleNamespace(key=key, value=value, timestamp=NOW_MS, offset=n)
        before = controls.changes
        assert controls.fold(record) is None or controls.changes == before
    assert len(controls.paused) == 1
