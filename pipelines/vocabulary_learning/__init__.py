"""The Beam job from a corpus to a WordPiece vocabulary."""
