"""Data: files become sentence pairs, token numbers and batches; what a data set is like; pretrained vectors."""
