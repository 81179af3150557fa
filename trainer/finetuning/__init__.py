"""Fine-tuning: a task's features to batches, objectives, the job, sweeps of it."""
