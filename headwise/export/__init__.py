"""Runs in the formats of other programs, each with a proof that both sides compute the same."""
