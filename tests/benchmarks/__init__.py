"""Benchmarks: each prints a table beside a peer measured in the same run, and fails where a bar is missed."""
