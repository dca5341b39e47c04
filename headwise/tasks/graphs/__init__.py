"""Graphs: a label for each node, a number for each of many molecules."""

TASKS = ("graph_regress", "node_classify")
