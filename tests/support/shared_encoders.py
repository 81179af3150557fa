"""Encoders that are opened, and their graphs made, once for all tests of a module."""

import functools

import pytest

from beambert.trainer.embedding import embedder
from beambert.trainer.embedding.embedder import Embedder
from beambert.trainer.retrieval import searching


@pytest.fixture(scope="module", autouse=True)
def shared_encoders():
    """A folder that is opened again gives the encoder that is there, with its graphs."""
    graphs, make = {}, Embedder._graph_of

    def graph_of(self, length):
        key = None if self.encoder.takes_any_length else length
        whose = id(self.encoder), self.settings.pooling, self.settings.scales_cut, key
        if whose not in graphs:
            graphs[whose] = make(self, length), self.encoder
        self._graphs[key] = graphs[whose][0]
        return self._graphs[key]

    with pytest.MonkeyPatch.context() as patch:
        opened = functools.cache(embedder.open_embedder)
        patch.setattr(embedder, "open_embedder", opened)
        patch.setattr(searching, "open_embedder", opened)
        patch.setattr(Embedder, "_graph_of", graph_of)
        yield
