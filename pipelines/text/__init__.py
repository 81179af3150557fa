"""Documents to sentences: cleaning, filtering, splitting."""
