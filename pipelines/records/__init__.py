"""Pre-training records: their contract, how they are written and read, and statistics of them."""
