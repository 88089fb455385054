"""Benchmarks: they assert what came out before they say how long it took."""
