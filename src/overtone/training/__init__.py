"""Train and evaluate one cell: protocol, plan, loop, checkpoints, devices, outcomes. Needs no torch to import."""
