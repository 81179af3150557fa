"""WordPiece vocabularies, and tokenizers that give the same ids as the original release's."""
