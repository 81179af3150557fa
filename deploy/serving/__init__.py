"""A server of SavedModels: MLServer, its settings and a client."""
