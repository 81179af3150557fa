"""Asks an encoder what it thinks of texts, by its two heads of pre-training."""
