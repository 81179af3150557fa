"""Models for serving: SavedModels on raw text, versions, the blessing."""
