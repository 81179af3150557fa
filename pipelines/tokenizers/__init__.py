"""Tokenizers from tokenizer.json files (byte-level BPE, Unigram), beside BERT's word pieces."""
