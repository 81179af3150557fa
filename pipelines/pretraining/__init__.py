"""Text to pre-training records: pairs, masks, shards, and the Beam job that makes them."""
