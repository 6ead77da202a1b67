"""Mutated records through all of a decision and its writing: nothing raises, everything has one end."""
