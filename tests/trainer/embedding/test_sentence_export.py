"""Folders for sentence-transformers: read again here, and by the library where it is installed."""

import json
import os
import subprocess

import numpy as np
import pytest
import safetensors.numpy
import tokenizers
from support import untrained_models

from beambert.cli import run
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


def test_the_folder_has_what_a_server_of_embeddings_reads(encoder, tmp_path):
    """The files and keys of text-embeddings-inference: pooling, length, tokenizer, tensors."""
    out = tmp_path / "out"
    flags = ["--to=sentence-transformers", "--pooling=mean"]
    assert run(["export", f"--model={encoder}", f"--output={out}", *flags]) == 0
    modules = json.loads((out / "modules.json").read_text())
    assert [module["type"].rpartition(".")[2] for module in modules] == [
        "Transformer",
        "Pooling",
        "Normalize",
    ]
    pooling = json.loads((out / "1_Pooling" / "config.json").read_text())
    modes = {name: value for name, value in pooling.items() if name.startswith("pooling_mode_")}
    assert [name for name, value in modes.items() if value] == ["pooling_mode_mean_tokens"]
    config = json.loads((out / "config.json").read_text())
    assert config["model_type"] == "bert"
    assert config["position_embedding_type"] == "absolute"
    assert pooling["word_embedding_dimension"] == config["hidden_size"]
    length = json.loads((out / "sentence_bert_config.json").read_text())["max_seq_length"]
    assert 0 < length <= config["max_position_embeddings"]
    tokenizer = tokenizers.Tokenizer.from_file(str(out / "tokenizer.json"))
    assert tokenizer.get_vocab_size() <= config["vocab_size"]
    tokens = tokenizer.encode("the river").tokens
    assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]"
    # The server looks for these with or without "bert." before them, and with all of one kind.
    names = set(safetensors.numpy.load_file(out / "model.safetensors"))
    prefix = "bert." if any(name.startswith("bert.") for name in names) else ""
    per_layer = ["attention.self.query", "attention.self.key", "attention.self.value"]
    per_layer += ["attention.output.dense", "intermediate.dense", "output.dense"]
    per_layer += ["attention.output.LayerNorm", "output.LayerNorm"]
    read = {f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")}
    read |= {f"embeddings.LayerNorm.{part}" for part in ("weight", "bias")}
    read |= {
        f"encoder.layer.{layer}.{name}.{part}"
        for layer in range(config["num_hidden_layers"])
        for name in per_layer
        for part in ("weight", "bias")
    }
    assert {prefix + name for name in read} <= names


def test_the_generator_of_replaced_tokens_stays_out(tmp_path, vocabulary):
    encoder, out = untrained_models.save_encoder(tmp_path / "e", vocabulary, "rtd"), tmp_path / "o"
    assert (
        run(["export", f"--model={encoder}", f"--output={out}", "--to=sentence-transformers"]) == 0
    )
    assert (out / "model.safetensors").is_file() and not (out / "generator").exists()
    expected = embed(str(encoder), TEXTS, normalize=True)
    np.testing.assert_allclose(embed(str(out), TEXTS), expected, atol=1e-6)
