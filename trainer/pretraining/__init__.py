"""Pre-training: records to batches, the objective, the job."""
