"""The Beam job from a corpus to pre-training records."""
