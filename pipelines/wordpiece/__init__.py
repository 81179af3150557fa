"""WordPiece: a vocabulary, and text to its ids, equal to the original's tokenizer."""
