"""bench-engine: the stepwise engine beside stock diffusers, on the tiny models of every family."""
