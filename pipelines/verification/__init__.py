"""Reads finished records again and reports figures, faults and warnings."""
