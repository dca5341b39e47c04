"""From text to text: translation, summaries, dialogues."""

TASKS = ("dialogue", "summarise", "translate")
