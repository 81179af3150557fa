"""The transform `Embed`, compared with `embed`."""

import pathlib

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.typehints.decorators import TypeCheckError

import beambert
from beambert.trainer.embedding.embedder import embed

GOLDEN = pathlib.Path(__file__).parent / "trainer"
MODEL = str(GOLDEN / "golden_sentences" / "mean")


@pytest.mark.slow
def test_embed():
    """Texts and columns with their vectors, those without a text with the reason."""
    rows = ["a river", {"text": "b", "id": 7}, " ", {"body": "a"}, {"text": 5}]
    made = beambert.Embed(beambert.EmbeddingJob(MODEL, prefix="a ", normalize=True))
    expected = embed(MODEL, ["a river", "b"], prefix="a ", normalize=True)

    def told(row):
        vector = row.pop("embedding", np.zeros(0, np.float32))
        assert vector.dtype == np.float32
        return row, np.round(vector.astype(float), 4).tolist()

    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = pipeline | beam.Create(rows) | made | beam.Map(told)
        vectors = [np.round(each.astype(float), 4).tolist() for each in expected]
        reasons = [
            ({"text": " "}, "has an empty 'text'; fill it in"),
            ({"body": "a"}, "has no column 'text' (it has body); name another"),
            ({"text": 5}, "has no text in 'text'; write one"),
        ]
        assert_that(
            found,
            equal_to(
                [({"text": "a river"}, vectors[0]), ({"text": "b", "id": 7}, vectors[1])]
                + [(row | {"reason": f"a row: {why}"}, []) for row, why in reasons]
            ),
        )


def test_embed_refuses_at_once(tmp_path):
    with pytest.raises(beambert.InputError, match="--max_seq_length=900: must be from 3 to"):
        beambert.Embed(beambert.EmbeddingJob(MODEL, max_seq_length=900))
    with pytest.raises(beambert.InputError, match="--model=.*none"):
        beambert.Embed(beambert.EmbeddingJob(str(tmp_path / "none")))
    with pytest.raises(TypeCheckError):
        beam.Pipeline() | beam.Create([1]) | beambert.Embed(beambert.EmbeddingJob(MODEL))
