"""The command line, one verb a file; nothing heavy is imported before a verb runs."""
