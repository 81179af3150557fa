"""The demonstration: the whole path on text that every machine has after set-up."""
