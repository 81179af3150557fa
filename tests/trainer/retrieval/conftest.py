"""Fixtures of the tests of embeddings."""

from support.shared_encoders import shared_encoders as shared_encoders
