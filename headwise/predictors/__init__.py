"""What applies a trained model to new inputs: one file a kind."""
