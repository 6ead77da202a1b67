"""The plan of a group: total, balanced, sticky, and never stopped by what one member says."""

from hypothesis import given
from hypothesis import strategies as st

from gpu_consumer.assignor import Holding, plan

MEMBERS = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=4),
    st.builds(Holding, st.lists(st.integers(0, 70), max_size=40, unique=True).map(tuple), st.integers(0, 5)),
    min_size=1,
    max_size=12,
)


def owners(assignment: dict[str, list[int]]) -> dict[int, str]:
    return {index: member for member, indexes in assignment.items() for index in indexes}


@given(st.integers(0, 64), MEMBERS)
def test_each_index_has_one_owner_and_counts_differ_by_one_at_most(count: int, members: dict[str, Holding]) -> None:
    assignment = plan(range(count), members)
    assert sorted(index for indexes in assignment.values() for index in indexes) == list(range(count))
    counts = [len(indexes) for indexes in assignment.values()]
    assert max(counts) - min(counts) <= 1
    assert assignment.keys() == members.keys(), "who has nothing is told so"


@given(st.integers(1, 64), st.integers(1, 12), st.lists(st.booleans(), max_size=20))
def test_a_join_or_a_leave_moves_no_more_than_it_must(count: int, first: int, changes: list[bool]) -> None:
    members = {f"m{number:02}": Holding() for number in range(first)}
    assignment = plan(range(count), members)
    for generation, join in enumerate(changes, start=1):
        held = {member: Holding(tuple(indexes), generation) for member, indexes in assignment.items()}
        if join:
            held[f"m{first + generation:02}"] = Holding()
        elif len(held) > 1:
            held.pop(min(held))
        before, after = owners(assignment), owners(assignment := plan(range(count), held))
        stayed = {index for index, member in before.items() if member in held}
        moved = {index for index in stayed if before[index] != after[index]}
        share = -(-count // len(held))
        assert len(moved) <= share, "only what the newcomer gets moves"
        assert join or not moved, "a leave moves nothing of those who stay"


@given(st.integers(1, 64), MEMBERS)
def test_the_same_members_keep_what_they_have(count: int, members: dict[str, Holding]) -> None:
    once = plan(range(count), members)
    held = {member: Holding(tuple(indexes), 9) for member, indexes in once.items()}
    assert plan(range(count), held) == once


@given(st.binary(max_size=80))
def test_no_user_data_raises(garbage: bytes) -> None:
    Holding.decode(garbage)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda each: st.lists(each, max_size=4)))
def test_json_of_the_wrong_shape_is_nothing_owned(value: object) -> None:
    import json

    for body in (value, {"owned": value}, {"generation": value, "owned": [1]}):
        held = Holding.decode(json.dumps(body).encode())
        assert all(isinstance(index, int) for index in held.indexes)
