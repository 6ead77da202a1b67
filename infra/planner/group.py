"""Who has which partitions of a virtual pool: the product's assignor, and the pause of what moves."""

from collections.abc import Mapping

from gpu_consumer.assignor import Holding, plan
from infra.planner.consumer import Consumer


class Group:
    def __init__(self, partitions: int, rebalance_seconds: float) -> None:
        self.rebalances = 0
        self._rebalance_seconds = rebalance_seconds
        self._owner: list[Consumer | None] = [None] * partitions
        self._free_at = [0.0] * partitions  # when a partition that has moved is its new owner's

    def owner(self, index: int) -> Consumer | None:
        return self._owner[index]

    def fetches(self, index: int, now: float) -> bool:
        """Whether its owner has begun with it."""
        return self._free_at[index] <= now

    def rebalance(self, members: Mapping[str, Consumer], now: float) -> tuple[float, dict[Consumer, set[int]]]:
        """When what moves is its new owners', and what each member has lost."""
        self.rebalances += 1
        holdings = {name: each.holding for name, each in members.items()}
        planned = plan(range(len(self._owner)), holdings) if members else {}
        free_at = now + self._rebalance_seconds
        owners: list[Consumer | None] = [None] * len(self._owner)
        for name, indexes in planned.items():
            for index in indexes:
                owners[index] = members[name]
        for index, owner in enumerate(owners):
            if owner is not self._owner[index]:
                self._free_at[index] = free_at
        self._owner = owners
        lost = {}
        for name, member in members.items():
            lost[member] = set(member.holding.indexes).difference(planned[name])
            member.holding = Holding(tuple(planned[name]), self.rebalances)
        return free_at, lost
