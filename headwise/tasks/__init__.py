"""What models are trained for: one task a file; the folder is the registry."""
