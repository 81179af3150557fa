"""Finished records to findings, faults and warnings."""
