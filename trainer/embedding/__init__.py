"""Texts to embeddings: one vector for each text, by an encoder and the pooling of its tokens."""
