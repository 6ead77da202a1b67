"""Processes killed, frozen and reset under load, and a checker that shares no code with what it checks."""
