"""What applies any trained model: the base `Predictor`, attention, editing, attribution, baselines, intervals."""
