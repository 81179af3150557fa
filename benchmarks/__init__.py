"""One script a question; each prints a ratio against something that a reader can run."""
