"""A device of a table of step times, for benchmarks: the step loop without torch and without a card."""
