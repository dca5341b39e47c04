"""Series of numbers: how they go on."""

TASKS = ("forecast",)
