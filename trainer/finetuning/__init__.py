"""Fine-tuning on a task: data, batches, objectives, and the job."""
