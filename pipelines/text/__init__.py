"""Turning documents into sentences: cleaning, filtering, splitting."""
