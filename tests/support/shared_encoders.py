"""Encoders that are opened, and their graphs made, once for all tests of a module."""

import functools

import pytest

from beambert.trainer.embedding import embedder
from beambert.trainer.embedding.embedder import Embedder
from beambert.trainer.retrieval import searching


@pytest.fixture(scope="module", autouse=True)
def shared_encoders():
    """A folder that is opened again gives the encoder that is there, with its graphs."""
    functions, make = {}, Embedder.__dict__["_vectors"].func

    def vectors(self):
        whose = id(self.encoder), self.settings.pooling, self.settings.scales_cut
        if whose not in functions:
            functions[whose] = make(self), self.encoder
        return functions[whose][0]

    with pytest.MonkeyPatch.context() as patch:
        opened = functools.cache(embedder.open_embedder)
        patch.setattr(embedder, "open_embedder", opened)
        patch.setattr(searching, "open_embedder", opened)
        patch.setattr(Embedder, "_vectors", property(vectors))
        yield
