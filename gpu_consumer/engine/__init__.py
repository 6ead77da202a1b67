"""The engine: a child process that owns the device, and the parent's handle on it."""
