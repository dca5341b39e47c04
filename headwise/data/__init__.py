"""Data of every family: files, tables, splits, batches, tokenizers, reports."""
