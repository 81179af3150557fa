"""Helpers of all rooms: errors, flags, messages on the screen, report pages, ragged arrays."""
