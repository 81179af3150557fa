"""Turns the examples of a task into model inputs, and logits into answers."""
