"""Attribution of the outputs of a model: to its inputs, heads and blocks."""
