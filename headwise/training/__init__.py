"""Training: the loop, optimizers and schedules, batch order, checkpoints, run folders and logs."""
