"""Language models: the next token, or masked ones."""

TASKS = ("language_model", "masked_lm")
