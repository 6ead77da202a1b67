"""Clients, logs, the lease and the compacted view. No Faust: both services stand on it."""
