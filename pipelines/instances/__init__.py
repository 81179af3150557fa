"""Tokenized documents to pre-training instances: pairs and masks."""
