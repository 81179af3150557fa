"""The training loop of pre-training and fine-tuning: steps, checkpoints, progress, devices."""
