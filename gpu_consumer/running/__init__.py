"""Between backlog and engine: claim, send, hear, charge, and start an engine again."""
