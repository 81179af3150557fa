"""Export of models for serving: SavedModels on raw text, their versions, and the blessing."""
