"""Pre-training: batches of records, the objective and the job."""
