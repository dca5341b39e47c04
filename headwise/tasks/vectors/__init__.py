"""A vector for each word."""

TASKS = ("word_vectors",)
