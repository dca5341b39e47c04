"""Decoding: greedy search, beam search and sampling over any decoder that goes step by step."""
