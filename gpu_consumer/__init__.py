"""How it runs: one process per GPU pulls work, batches it, generates, stores and publishes."""
