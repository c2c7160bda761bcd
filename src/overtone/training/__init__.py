"""Train and evaluate one cell: protocol, plan, loop, checkpoints, devices, outcomes. Needs no torch to import."""

TRAINING_PASSES = 3.0  # a training step's arithmetic in forward passes: once forward, twice as much backward
