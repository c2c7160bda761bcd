"""Benchmarks: what the two papers say of speed and memory, measured; and what a trained resonator does. One measurement a module."""
