"""Speed of Headwise beside its peers, in CPU time of one thread; see README.md in this folder."""
