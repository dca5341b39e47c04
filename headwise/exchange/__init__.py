"""Models in the formats of other programs: what corresponds to what, and reading and writing their folders."""
