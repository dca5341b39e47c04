"""Training: the loop, the objective, optimizers and schedules, validation; `train` and `load`."""
