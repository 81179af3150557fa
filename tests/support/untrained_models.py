"""Finished model folders with random weights, made in a second or two, for tests of their use."""

import pathlib

import numpy as np

from beambert.folders import finish_output
from beambert.model.classifier import PLAIN_HEAD, Head
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
            "patience": None,
        },
        "pooling": None,
        "freeze_encoder": False,
        **training,
    }
    training.setdefault("trained_positions", training["max_seq_length"])
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
    training |= {"objective": objective, "generator_size": 0.5}
    model = build_pretrainer(training, config)
    return finish(model, folder, config, vocabulary, training)


def save_classifier(folder: pathlib.Path, vocabulary) -> pathlib.Path:
    """Writes the folder of a classifier of single texts."""
    columns = {"text_columns": ["text"], "label_column": "label"}
    return save_task(folder, vocabulary, "classification", labels=LABELS, columns=columns)


def save_task(
    folder: pathlib.Path,
    vocabulary,
    kind: str,
    spread=0.0,
    features=None,
    head=PLAIN_HEAD,
    **training,
) -> pathlib.Path:
    """Writes the folder of a model of a task.

    Args:
      spread: standard deviation of what is added to the initial weights, under which all texts have
        nearly the same answer.
      **training: further fields of training.json.
    """
    config = small_config(vocabulary)
    training = {"kind": kind, "task": kind, "labels": [], "is_pair": False} | training
    model = build_model(kind, config, len(training["labels"]), seed=0, head=head)
    random = np.random.default_rng(1)
    for variable in model.weights if spread else ():
        variable.assign(variable + random.normal(0, spread, variable.shape))
    return finish(model, folder, config, vocabulary, training, features)


def save_embedding(folder: pathlib.Path, vocabulary) -> pathlib.Path:
    """Writes the folder of an embedding that takes the first token."""
    given = {"features": TextFeatures(vocabulary, True, LENGTH), "head": Head(pooling="cls")}
    return save_task(folder, vocabulary, EMBEDDING, 0.3, **given, pooling="cls")


def save_sparse(folder: pathlib.Path, vocabulary) -> pathlib.Path:
    """Writes the folder of a sparse encoder."""
    return save_task(folder, vocabulary, SPARSE, 0.3, TextFeatures(vocabulary, True, LENGTH))


def save_late_interaction(
    folder: pathlib.Path, vocabulary, query_length: int = 9, is_served: bool = False
) -> pathlib.Path:
    """Writes the folder of a late interaction."""
    features = InteractionFeatures(vocabulary, True, LENGTH, query_length)
    columns = {"text_columns": ["text", "text_b"], "label_column": "label"}
    training = {"is_pair": True, "query_length": query_length, "columns": columns}
    given = folder, vocabulary, LATE_INTERACTION, 1, features if is_served else None
    return save_task(*given, **training)
