"""Fine-tuning on a task: data, batches, objectives, the job, and sweeps."""
