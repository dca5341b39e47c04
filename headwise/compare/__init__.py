"""Claims about attention, measured: how costs grow, how far two tokens are apart, and what follows from the numbers."""
