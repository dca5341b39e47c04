"""Training: recipes, the loop, distribution, checkpoints, comparison with baselines, sweeps."""
