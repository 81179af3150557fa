"""A job holds a large tokenizer twice at most, since Dataflow takes jobs of 20 MB."""

import base64
import bz2
import json
import random

import apache_beam as beam
import pytest
from support.sample_text import make_document
from support.tokenizer_kinds import XLMR, train

from beambert import (
    CreatePretrainingData,
    PretrainingDataJob,
)

# Number of made-up tokens.
TOKENS = 50_000


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Path of the tokenizer.json of a Unigram with many tokens that no text has."""
    draw = random.Random(0)
    trained = train(XLMR, make_document(draw, 50), 120)
    content = json.loads(trained.to_str())
    words = ("".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=9)) for _ in range(TOKENS))
    content["model"]["vocab"] += [
        [f"▁{word}", -20 - draw.random()] for word in dict.fromkeys(words)
    ]
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False))
    return path


def copies(pipeline, tokenizer):
    """Returns how many tokenizers a job could hold, as Beam packs what it sends."""
    packed = base64.b64encode(bz2.compress(tokenizer.read_bytes()))
    return len(pipeline.to_runner_api().SerializeToString()) / len(packed)


def job(tokenizer, output, **given):
    lengths = {"max_seq_length": (32, 64), "eval_fraction": 0.2, "num_shards": 2}
    return PretrainingDataJob(
        vocab_file=None, output=str(output), tokenizer=str(tokenizer), **lengths | given
    )


@pytest.mark.slow
def test_the_whole_job(tokenizer, tmp_path):
    pipeline = beam.Pipeline()
    texts = pipeline | beam.Create(["A river.\nA city."])
    _ = texts | CreatePretrainingData(job(tokenizer, tmp_path / "records"))
    assert 2 < copies(pipeline, tokenizer) < 2.5
