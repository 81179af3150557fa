"""Vocabularies and tokenizers: BERT's WordPiece, and any tokenizer.json."""
