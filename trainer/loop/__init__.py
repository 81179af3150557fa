"""The training loop, whatever is trained: steps, checkpoints, progress, devices."""
