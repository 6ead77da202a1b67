"""Was a picture really drawn as its result says: draw it again, and compare."""
