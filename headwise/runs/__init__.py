"""The run folder: written so that no crash loses or mixes anything, and read back; knows no model."""
