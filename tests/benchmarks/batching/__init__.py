"""bench-batching: step batching beside the batchers that run a batch to its end, on the virtual device."""
