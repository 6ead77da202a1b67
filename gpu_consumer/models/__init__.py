"""Model folders: their digests, loading, and the tiny ones made in code."""
