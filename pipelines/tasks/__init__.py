"""Supervised tasks: their declarations, files, examples and official metrics."""
