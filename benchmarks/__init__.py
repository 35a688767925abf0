"""Measures the suite: `make bench`."""
