"""Answers of fine-tuned SavedModels to texts, in batches."""
