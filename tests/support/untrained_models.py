"""Finished model folders with random weights, made in a second or two, for tests of their use."""

import pathlib

import numpy as np

from beambert.folders import finish_output
from beambert.model.classifier import Head
from beambert.model.config import BertConfig, EncoderConfig
from beambert.model.objectives import BERT
from beambert.model_files import PRETRAINING
from beambert.pipelines.tasks.task import EMBEDDING, LATE_INTERACTION, SPARSE
from beambert.pipelines.tasks.texts import InteractionFeatures, TextFeatures
from beambert.trainer import model_folders
from beambert.trainer.models import build_model, build_pretrainer
from beambert.trainer.serving.saved_model import save_task_model

LENGTH = 16
LABELS = ["negative", "positive"]


def small_config(vocabulary) -> BertConfig:
    """Returns the sizes of an encoder that is made and run in no time."""
    return BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=LENGTH,
    )


def finish(model, folder, config, vocabulary, training, features=None) -> pathlib.Path:
    """Writes the folder of a model, with a SavedModel if it has features or labels."""
    training = {
        "max_seq_length": LENGTH,
        "do_lower_case": True,
        "vocabulary_sha256": vocabulary.sha256,
        "loop": {
            "train_batch_size": 8,
            "random_seed": 0,
            "gradient_accumulation_steps": 1,
            "dtype": "float32",
        },
        **training,
    }
    model_folders.describe_model(str(folder), config, vocabulary, training)
    model_folders.save_weights(model, str(folder))
    if training.get("labels"):
        (folder / "labels.txt").write_text("".join(f"{label}\n" for label in training["labels"]))
        features = features or TextFeatures(vocabulary, True, LENGTH)
    if features:
        save_task_model(model, features, training, f"{folder}/saved_model")
    finish_output(str(folder), model_folders.job_identity(training, config))
    return folder


def save_encoder(
    folder: pathlib.Path,
    vocabulary,
    objective: str = BERT,
    max_seq_length: int = LENGTH,
    config: EncoderConfig | None = None,
) -> pathlib.Path:
    """Writes the folder of a pre-trained encoder, by default of `small_config`."""
    config = config or small_config(vocabulary)
    training = {"kind": PRETRAINING, "max_seq_length": max_seq_length}
    if objective != BERT:
        training |= {"objective": objective, "generator_size": 0.5}
    model = build_pretrainer(training, config)
    return finish(model, folder, config, vocabulary, training)


def save_classifier(folder: pathlib.Path, vocabulary) -> pathlib.Path:
    """Writes the folder of a classifier of single texts."""
    config = small_config(vocabulary)
    model = build_model("classification", config, len(LABELS), seed=0)
    training = {
        "kind": "classification",
        "task": "classification",
        "labels": LABELS,
        "is_pair": False,
        "columns": {"text_columns": ["text"], "label_column": "label"},
    }
    return finish(model, folder, config, vocabulary, training)


def save_embedding(folder: pathlib.Path, vocabulary) -> pathlib.Path:
    """Writes the folder of an embedding that takes the first token."""
    config = small_config(vocabulary)
    model = build_model(EMBEDDING, config, 0, seed=0, head=Head(pooling="cls"))
    random = np.random.default_rng(1)
    for variable in model.weights:
        variable.assign(variable + random.normal(0, 0.3, variable.shape))
    training = {"kind": EMBEDDING, "task": EMBEDDING, "labels": [], "is_pair": False}
    features = TextFeatures(vocabulary, True, LENGTH)
    return finish(model, folder, config, vocabulary, training | {"pooling": "cls"}, features)


def save_sparse(folder: pathlib.Path, vocabulary) -> pathlib.Path:
    """Writes the folder of a sparse encoder, with weights that tell texts apart."""
    config = small_config(vocabulary)
    model = build_model(SPARSE, config, 0, seed=0)
    random = np.random.default_rng(1)
    for variable in model.weights:
        variable.assign(variable + random.normal(0, 0.3, variable.shape))
    training = {"kind": SPARSE, "task": SPARSE, "labels": [], "is_pair": False}
    features = TextFeatures(vocabulary, True, LENGTH)
    return finish(model, folder, config, vocabulary, training, features)


def save_late_interaction(
    folder: pathlib.Path, vocabulary, query_length: int = 9, is_served: bool = False
) -> pathlib.Path:
    """Writes the folder of a late interaction, with weights that tell texts apart."""
    config = small_config(vocabulary)
    model = build_model(LATE_INTERACTION, config, 0, seed=0)
    random = np.random.default_rng(1)
    for variable in model.weights:
        variable.assign(variable + random.normal(0, 1, variable.shape))
    training = {
        "kind": LATE_INTERACTION,
        "task": LATE_INTERACTION,
        "labels": [],
        "is_pair": True,
        "query_length": query_length,
        "columns": {"text_columns": ["text", "text_b"], "label_column": "label"},
    }
    features = InteractionFeatures(vocabulary, True, LENGTH, query_length)
    given = model, folder, config, vocabulary, training
    return finish(*given, features if is_served else None)
