"""Whole texts: a label, or a number."""

TASKS = ("classify", "regress")
