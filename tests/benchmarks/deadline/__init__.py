"""How many deadlines are met when more is asked for than can be done in time."""
