"""Benchmarks: what the two papers say of speed and memory, measured; and what a trained resonator does. One measurement a module."""

TRAINING_PASSES = 3.0  # a training step's arithmetic in forward passes: once forward, twice as much backward
