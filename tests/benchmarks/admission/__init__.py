"""bench-admission: what the whole of admission costs, beside a loop that only copies and beside stream frameworks."""
