"""Makes pre-training instances of tokenized documents: pairs of sentences and masks."""
