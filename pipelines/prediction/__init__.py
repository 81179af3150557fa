"""SavedModels and their answers, in batches."""
