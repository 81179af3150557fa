"""A task's examples to a model's inputs, and its logits to answers."""
