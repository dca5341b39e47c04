"""Seeing: figures, alignments and tables of what a model attends to."""
