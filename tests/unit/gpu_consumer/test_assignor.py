"""The assignor as a group's leader and members call it."""

from collections.abc import Mapping

from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

from gpu_consumer.assignor import Holding, IndexAssignor, plan


class Cluster:
    def __init__(self, partitions: Mapping[str, int]) -> None:
        self._partitions = partitions

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        count = self._partitions.get(topic)
        return None if count is None else set(range(count))


LANES = ["w.interactive", "w.standard", "w.bulk"]


def test_all_lanes_of_an_index_go_together() -> None:
    members = {name: IndexAssignor() for name in "abc"}
    joined = {name: assignor.metadata(LANES) for name, assignor in members.items()}
    shares = members["a"].assign(Cluster(dict.fromkeys(LANES, 8)), joined)
    owned = {}
    for name, share in shares.items():
        by_topic = {topic: list(partitions) for topic, partitions in share.assignment}
        assert len({tuple(partitions) for partitions in by_topic.values()}) == 1
        owned[name] = by_topic[LANES[0]]
    assert owned == {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6, 7]}, "contiguous runs"


def test_a_ninth_member_moves_a_ninth() -> None:
    first = plan(range(64), {f"m{n}": Holding() for n in range(8)})
    held = {member: Holding(tuple(indexes), 1) for member, indexes in first.items()}
    second = plan(range(64), held | {"new": Holding()})
    moved = sum(len(set(first[member]) - set(second[member])) for member in first)
    assert moved == len(second["new"]) == 7


def test_what_a_member_owned_is_told_and_believed_by_generation() -> None:
    assignor = IndexAssignor()
    share = assignor.assign(Cluster({"w": 2}), {"me": assignor.metadata(["w"])})["me"]
    assignor.on_assignment(share)
    assert Holding.decode(assignor.metadata(["w"]).user_data) == Holding((0, 1), 1)
    zombie = Holding((0, 1), 0)
    assert plan(range(2), {"a-zombie": zombie, "me": Holding((0, 1), 1)})["me"] == [0]
    assert plan(range(1), {"a-zombie": zombie, "me": Holding((0,), 1)}) == {"a-zombie": [], "me": [0]}


# case FST-11
def test_more_members_than_indexes_leave_some_idle() -> None:
    assignment = plan(range(1), {"a": Holding(), "b": Holding(), "c": Holding()})
    assert sorted(map(len, assignment.values())) == [0, 0, 1]


def test_a_lane_that_its_owner_does_not_know_yet_has_an_owner_all_the_same() -> None:
    assignor = IndexAssignor()
    members = {"old": assignor.metadata(["w.bulk"]), "new": assignor.metadata(["w.bulk", "w.extra"])}
    shares = assignor.assign(Cluster({"w.bulk": 4, "w.extra": 4}), members)
    given = [(topic, index) for share in shares.values() for topic, indexes in share.assignment for index in indexes]
    assert sorted(given) == [(topic, index) for topic in ("w.bulk", "w.extra") for index in range(4)]
    assert "w.extra" not in [topic for topic, _ in shares["old"].assignment]


def test_a_topic_that_does_not_exist_yet_stops_nobody() -> None:
    assignor = IndexAssignor()
    shares = assignor.assign(Cluster({}), {"me": assignor.metadata(["w"])})
    assert shares["me"].assignment == []


def test_user_data_that_nobody_can_read_is_nothing_owned() -> None:
    members = {
        "bad": ConsumerProtocolMemberMetadata(0, ["w"], b"\xff{"),
        "none": ConsumerProtocolMemberMetadata(0, ["w"], None),
        "odd": ConsumerProtocolMemberMetadata(0, ["w"], b'{"owned":[true,-1,"x",3],"generation":"9"}'),
    }
    shares = IndexAssignor().assign(Cluster({"w": 3}), members)
    assert [len(share.partitions()) for share in shares.values()] == [1, 1, 1]


def test_a_member_is_told_what_another_one_had_until_now() -> None:
    """Not what nobody had, nor what a member had that is gone."""
    members = {name: IndexAssignor() for name in ("gone", "stays")}

    def rebalance(*names: str) -> None:
        joined = {name: members[name].metadata(["w"]) for name in names}
        for name, share in members[names[0]].assign(Cluster({"w": 6}), joined).items():
            members[name].on_assignment(share)

    rebalance("gone", "stays")
    assert members["stays"].moved == set(), "nobody had it"
    rebalance("stays")
    assert members["stays"].moved == set(), "who had it is gone"
    members["new"] = IndexAssignor()
    rebalance("stays", "new")
    assert members["stays"].moved == set()
    assert members["new"].moved == {3, 4, 5}
    rebalance("new", "stays")
    assert members["new"].moved == set(), "it had it itself"
