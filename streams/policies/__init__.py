"""Content policies of a deployment: those that are plugged in, and the one that comes with us."""
