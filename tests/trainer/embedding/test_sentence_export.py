"""Folders for sentence-transformers: read again here, and by the library where it is installed."""

import json
import os
import subprocess

import numpy as np
import pytest
from support import untrained_models

from beambert.commands import run
from beambert.trainer.embedding.embedder import embed

TEXTS = ["the river", "a village of the north", "people live there, in the city."]
# A Python interpreter that has sentence-transformers, for a release.
PEER = os.environ.get("BEAMBERT_SENTENCE_TRANSFORMERS_PYTHON")
ENCODE = """
import json, sys
from sentence_transformers import SentenceTransformer
print(json.dumps(SentenceTransformer(sys.argv[1], device="cpu").encode(sys.argv[2:]).tolist()))
"""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, vocabulary):
    folder = tmp_path_factory.mktemp("exported") / "encoder"
    return str(untrained_models.save_encoder(folder, vocabulary))


@pytest.mark.parametrize(("pooling", "normalize"), [("mean", True), ("cls", False)])
def test_the_folder_gives_the_vectors_of_the_encoder(encoder, tmp_path, pooling, normalize):
    out = tmp_path / "out"
    flags = ["--to=sentence-transformers", f"--pooling={pooling}", f"--normalize={normalize}"]
    assert run(["export", f"--model={encoder}", f"--output={out}", *flags]) == 0
    expected = embed(encoder, TEXTS, pooling=pooling, normalize=normalize)
    np.testing.assert_allclose(embed(str(out), TEXTS), expected, atol=1e-6)
    if PEER:
        done = subprocess.run(
            [PEER, "-c", ENCODE, out, *TEXTS], capture_output=True, text=True, check=True
        )
        np.testing.assert_allclose(json.loads(done.stdout.splitlines()[-1]), expected, atol=1e-5)


def test_what_is_no_encoder_is_refused(tmp_path, vocabulary, capsys):
    folder = untrained_models.save_classifier(tmp_path / "classifier", vocabulary)
    flags = [f"--output={tmp_path / 'out'}", "--to=sentence-transformers"]
    assert run(["export", f"--model={folder}", *flags]) == 2
    assert "is no encoder that reads whole texts" in capsys.readouterr().err
    assert run(["export", f"--model={folder}", "--output=o", "--pooling=cls"]) == 2
    assert "--pooling=cls: needs --to=sentence-transformers" in capsys.readouterr().err
