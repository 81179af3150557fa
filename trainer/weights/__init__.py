"""Reads the weights of other systems and writes weights for them."""
