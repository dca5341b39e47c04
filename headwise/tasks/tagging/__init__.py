"""Words: a tag each."""

TASKS = ("tag",)
