"""The Beam job that learns a WordPiece vocabulary from a corpus."""
