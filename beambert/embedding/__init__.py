"""Embeddings in Beam pipelines, and the command `beambert embed`, which also works without Beam."""
