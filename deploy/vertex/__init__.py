"""Training jobs and the retraining pipeline on Vertex AI."""
