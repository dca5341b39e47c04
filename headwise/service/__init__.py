"""Trained runs over HTTP: requests checked and bounded, queued, answered in batches by one thread."""
