"""Exports in the hands of transformers itself.

    BEAMBERT_TRANSFORMERS=VENV/bin/python pytest tests/trainer/weights/test_transformers.py

The interpreter needs torch and transformers (tried with 2.15.0 and 5.23.0), which this repository's
environment does not have.
"""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from support.golden_arrays import features_of

from beambert.folders import finish_output
from beambert.model.families.table import FAMILIES
from beambert.pipelines.tasks.task import CHOICE, SPAN, TAGGING
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer import model_folders
from beambert.trainer.models import build_model, build_pretrainer
from beambert.trainer.weights.export import export_hugging_face

PYTHON = os.environ.get("BEAMBERT_TRANSFORMERS")
SCRIPT = pathlib.Path(__file__).parents[1] / "load_with_transformers.py"
BATCH = pathlib.Path(__file__).parents[1] / "golden_families" / "modernbert" / "arrays.npz"
LABELS = ["a", "b", "c"]


def random_weights(model):
    """A model whose biases and norms are random, too."""
    random = np.random.default_rng(3)
    for variable in model.variables:
        noise = 0.1 * random.standard_normal(variable.shape).astype(np.float32)
        variable.assign(variable.numpy() + noise)
    return model


def cases(config):
    """Yields name, training.json and model for each objective and kind of task of a family."""
    for objective in FAMILIES[config.family].objectives:
        if objective != "rtd":
            training = {"kind": "pretraining", "objective": objective}
            yield objective, training, random_weights(build_pretrainer(training, config))
    for kind in ("classification", CHOICE, TAGGING, SPAN):
        model = random_weights(build_model(kind, config, len(LABELS), 1))
        yield kind, {"kind": kind, "labels": LABELS}, model


def logits_of(model, features):
    """The logits of all places, or of the task."""
    rows, length = features["input_ids"].shape
    features["masked_lm_positions"] = tf.tile(tf.range(length)[None], [rows, 1])
    outputs = model(features)
    return (outputs["masked_lm_logits"] if isinstance(outputs, dict) else outputs).numpy()


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON, reason="BEAMBERT_TRANSFORMERS names no interpreter")
@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_loads_every_export_and_computes_the_same(family, tmp_path):
    described, features = FAMILIES[family], features_of(np.load(BATCH))
    tokens = (BATCH.parent / "vocab.txt").read_text().split("\n")[:-1]
    vocabulary = Vocabulary(tuple(tokens))
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 24, "max_position_embeddings": 20, "hidden_act": "gelu"}
    sizes |= {"embedding_size": 8} if family in ("albert", "electra") else {}
    sizes |= {"local_attention": 4} if family == "modernbert" else {}
    sizes |= {"position_buckets": 8} if family == "deberta-v2" else {}
    sizes |= {"pad_token_id": vocabulary.id_of("[PAD]")} if family == "roberta" else {}
    config = described.config(len(tokens), **sizes)
    folders = []
    for name, training, model in cases(config):
        own, out = tmp_path / f"{name}-own", tmp_path / name
        own.mkdir()
        training |= {"do_lower_case": True, "max_seq_length": 11}
        model_folders.describe_model(str(own), config, vocabulary, training)
        model_folders.save_weights(model, str(own))
        finish_output(str(own), {})
        export_hugging_face(str(own), str(out))
        arrays = {key: features[key] for key in ("input_ids", "input_mask", "segment_ids")}
        np.savez(out / "ours.npz", logits=logits_of(model, dict(features)), **arrays)
        folders.append(out)
    done = subprocess.run([PYTHON, SCRIPT, *folders], check=True, stdout=subprocess.PIPE, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(folders)
    for folder, answer in zip(folders, answers, strict=True):
        assert answer["issues"] == {} and answer["is_tied"], (folder.name, answer)
        assert answer["difference"] < 1e-5, (folder.name, answer)
