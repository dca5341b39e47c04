"""Models: encoders and decoders, and the configurations that build them."""
