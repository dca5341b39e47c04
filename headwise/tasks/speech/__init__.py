"""Recordings: a class, labels in time, words."""

TASKS = ("speech_classify", "speech_tag", "transcribe")
