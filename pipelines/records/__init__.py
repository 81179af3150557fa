"""Pre-training records: their contract, their bytes, reading them, what is in them."""
