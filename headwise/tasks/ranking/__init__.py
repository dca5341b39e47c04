"""Histories of choices: which candidate comes next."""

TASKS = ("rank",)
