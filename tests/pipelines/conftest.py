"""Beam's small pipelines in half the time."""

from support import quick_beam

quick_beam.install()
