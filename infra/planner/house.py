"""What a pool is, and how its consumers are set."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class House:
    """The defaults are those of the consumer's settings, but for the first three: what a swap and a rebalance take is
    nowhere declared, and `models_held` stands for memory, which is not counted."""

    partitions: int
    load_seconds: float = 0.0
    swap_seconds: float = 20.0
    models_held: int = 4
    rebalance_seconds: float = 3.0
    batch_wait_seconds: float = 0.25
    affinity_wait_seconds: float = 5.0
    look_ahead: int = 256
    backlog_max: int = 512
    settling_max: int = 256
    ahead_slots: int = 0
    claim_seconds: float = 0.1
    ahead_batches_max: int = 16
