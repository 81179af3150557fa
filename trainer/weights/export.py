"""Weights for other systems: Hugging Face, the original release, ColBERT."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beambert import locks, storage
from beambert.errors import InputError
from beambert.model.checkpoint_names import original_name
from beambert.model.config import ORIGINAL_EPSILON
from beambert.model.families.debertav2 import merged
from beambert.model.families.family import (
    ENCODER,
    MULTIPLE_CHOICE,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
)
from beambert.model.families.table import family_of
from beambert.model.objectives import RTD
from beambert.model.sentence_encoder import DIMENSIONS
from beambert.model_files import CARD_FILE, PRETRAINING
from beambert.pipelines.tasks.task import (
    CHOICE,
    CLASSIFICATION,
    EMBEDDING,
    LATE_INTERACTION,
    MULTI_LABEL,
    REGRESSION,
    RERANK,
    SIMILARITY,
    SPAN,
    TAGGING,
)
from beambert.pipelines.tasks.texts import Markers
from beambert.trainer import model_folders
from beambert.trainer.model_folders import ModelFolder
from beambert.trainer.models import objective_of, pretrained_model, task_model
from beambert.trainer.weights.model_card import model_card
from beambert.trainer.weights.tokenizer_files import exported_files, json_bytes
from beambert.trainer.weights.weight_files import CONFIG_FILES, SAFETENSORS_FILE

COLBERT_FILE = "artifact.metadata"


def colbert_settings(found: ModelFolder) -> dict[str, Any]:
    """Returns the settings of a model of late interaction."""
    markers = Markers.of(found.vocabulary)
    return {
        "dim": DIMENSIONS,
        "query_maxlen": found.training["query_length"],
        "doc_maxlen": found.training["max_seq_length"],
        "query_token_id": found.vocabulary.tokens[markers.query],
        "doc_token_id": found.vocabulary.tokens[markers.document],
        "query_token": "[Q]",
        "doc_token": "[D]",
        "similarity": "cosine",
        "mask_punctuation": True,
        "attend_to_mask_tokens": False,
    }


ORIGINAL_CONFIG_FILE, HUGGING_FACE_CONFIG_FILE = CONFIG_FILES
# The names of the original release's checkpoint files begin with this.
CHECKPOINT_PREFIX = "bert_model.ckpt"


@dataclasses.dataclass(frozen=True)
class _HuggingFaceClass:
    """A class of `transformers`.

    Attributes:
      ending: ending of the name of the class, which begins with the family's prefix.
      names_labels: whether its configuration names the labels.
      config: further entries of its configuration.
    """

    ending: str
    names_labels: bool = False
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)


# Whether a configuration is BERT's -> name of an id in it -> the role of its token.
_TOKENS_OF_CONFIG = {
    True: {"pad": "padding"},
    False: {
        "pad": "padding",
        "bos": "classify",
        "eos": "separate",
        "cls": "classify",
        "sep": "separate",
    },
}
# Kind of fine-tuned model -> class of `transformers`.
HUGGING_FACE = {
    CLASSIFICATION: _HuggingFaceClass(
        SEQUENCE_CLASSIFICATION,
        names_labels=True,
        # Without it `transformers` takes a single label for a regression.
        config={"problem_type": "single_label_classification"},
    ),
    MULTI_LABEL: _HuggingFaceClass(
        SEQUENCE_CLASSIFICATION,
        names_labels=True,
        config={"problem_type": "multi_label_classification"},
    ),
    REGRESSION: _HuggingFaceClass(
        SEQUENCE_CLASSIFICATION, config={"problem_type": "regression", "num_labels": 1}
    ),
    # CrossEncoder of sentence-transformers takes the sigmoid of a single label.
    RERANK: _HuggingFaceClass(SEQUENCE_CLASSIFICATION, config={"num_labels": 1}),
    CHOICE: _HuggingFaceClass(MULTIPLE_CHOICE),
    TAGGING: _HuggingFaceClass(TOKEN_CLASSIFICATION, names_labels=True),
    SPAN: _HuggingFaceClass(QUESTION_ANSWERING),
    # Bare encoders: their variables have the names that they have in any class.
    EMBEDDING: _HuggingFaceClass(ENCODER),
    SIMILARITY: _HuggingFaceClass(ENCODER),
    # `transformers` loads the encoder alone; see `colbert`.
    LATE_INTERACTION: _HuggingFaceClass(ENCODER, config={"architectures": ["HF_ColBERT"]}),
}


def export_hugging_face(model_dir: str, output: str, license: str | None = None) -> None:
    """Writes a folder that `transformers` loads, as the class of its objective or of its task.

    Of replaced token detection it is the discriminator.

    Args:
      model_dir: folder of an encoder or a fine-tuned model.
      output: folder to make.
      license: the Hub's name of the model's licence, for the model card; None to say nothing of it.

    Raises:
      InputError: the model cannot be used, or the output exists already.
    """
    found = model_folders.open_model(model_dir, "--model")
    for setting, what in (
        ("freeze_encoder", "its classifier reads the encoder's last four layers"),
        ("num_bilstm_layers", "its classifier reads a BiLSTM on top of the encoder"),
    ):
        if found.training.get(setting):
            raise InputError(
                f"--model={model_dir}: {what}, which no class of transformers does; export it as a "
                "SavedModel"
            )
    if "windows" in found.training:
        raise InputError(
            f"--model={model_dir}: reads long texts in windows, which no class of transformers "
            "does; export it as a SavedModel"
        )

    def write(folder: str) -> None:
        write_hugging_face(folder, found)
        weights = storage.read_bytes(f"{folder}/{SAFETENSORS_FILE}")
        card = model_card(found, hashlib.sha256(weights).hexdigest(), license)
        storage.write_bytes(f"{folder}/{CARD_FILE}", card.encode())
        if found.training["kind"] == LATE_INTERACTION:
            _write_json(f"{folder}/{COLBERT_FILE}", colbert_settings(found))

    write_whole(output, write)


def write_hugging_face(folder: str, found: model_folders.ModelFolder) -> None:
    """Writes the files that `transformers` loads, those of the tokenizer too, into a folder."""
    import safetensors.numpy

    family = family_of(found.config)
    if objective_of(found.training) == RTD:
        config = _described(found, family.discriminator_class)
        if found.config.family == "bert":
            config |= {"model_type": "electra", "embedding_size": found.config.embedding_width}
        names = family.discriminator_name
    else:
        config = _hugging_face_config(found)
        names = family.namer(_class_of(found).ending)
    weights = _weights(_load(found), names)
    data = safetensors.numpy.save(weights, metadata={"format": "pt"})
    storage.write_bytes(f"{folder}/{SAFETENSORS_FILE}", data)
    _write_json(f"{folder}/{HUGGING_FACE_CONFIG_FILE}", config)
    for name, content in exported_files(found).items():
        storage.write_bytes(f"{folder}/{name}", content)


def export_tensorflow(model_dir: str, output: str) -> None:
    """Writes the original release's files: a TF1 checkpoint, bert_config.json, vocab.txt.

    Args:
      model_dir: folder of an encoder or a fine-tuned model.
      output: folder to make.

    Raises:
      InputError: the model cannot be used, or the output exists already.
    """
    found = model_folders.open_model(model_dir, "--model")
    if found.training["kind"] == LATE_INTERACTION:
        raise InputError(
            f"--model={model_dir}: makes vectors of tokens, for which the original release has no "
            "layer; export it with --to=huggingface"
        )
    if found.config.family != "bert":
        raise InputError(
            f"--to=tf1: the original release has no {family_of(found.config).title}; give "
            "--to=huggingface"
        )
    if found.config.layer_norm_eps != ORIGINAL_EPSILON:
        raise InputError(
            f"--to=tf1: the original release has no layer_norm_eps {found.config.layer_norm_eps}; "
            "give --to=huggingface"
        )

    def write(folder: str) -> None:
        weights = _weights(_load(found), original_name)
        tf.raw_ops.SaveV2(
            prefix=f"{folder}/{CHECKPOINT_PREFIX}",
            tensor_names=list(weights),
            shape_and_slices=[""] * len(weights),
            tensors=[tf.constant(value) for value in weights.values()],
        )
        storage.write_bytes(f"{folder}/{ORIGINAL_CONFIG_FILE}", found.config.to_json().encode())
        for name, data in found.vocabulary.files().items():
            storage.write_bytes(f"{folder}/{name}", data)

    write_whole(output, write)


def _class_of(found: model_folders.ModelFolder) -> _HuggingFaceClass:
    if found.training["kind"] == PRETRAINING:
        endings = family_of(found.config).pretraining_classes
        return _HuggingFaceClass(endings[objective_of(found.training)])
    return HUGGING_FACE[found.training["kind"]]


def _load(found: model_folders.ModelFolder) -> keras.Model:
    if found.training["kind"] == PRETRAINING:
        return pretrained_model(found)
    return task_model(found)


def _weights(
    model: keras.Model, rename: Callable[[str], tuple[str, bool] | None]
) -> dict[str, np.ndarray]:
    """Returns name -> array of a model's variables, with the names of another system.

    Variables that have no name there are left out.
    """
    weights = {}
    for path, value in merged({each.path: each.numpy() for each in model.variables}).items():
        if renamed := rename(path):
            name, is_transposed = renamed
            weights[name] = np.ascontiguousarray(value.T) if is_transposed else value
    return weights


def _hugging_face_config(found: model_folders.ModelFolder) -> dict[str, Any]:
    its_class = _class_of(found)
    name = family_of(found.config).class_prefix + its_class.ending
    config = _described(found, name)
    if its_class.names_labels:
        labels = found.training["labels"]
        config |= {
            "id2label": {str(index): label for index, label in enumerate(labels)},
            "label2id": {label: index for index, label in enumerate(labels)},
        }
    return config | dict(its_class.config)


def _described(found: model_folders.ModelFolder, its_class: str) -> dict[str, Any]:
    config = found.config
    ids = {
        f"{name}_token_id": getattr(found.vocabulary.special, role)
        for name, role in _TOKENS_OF_CONFIG[config.family == "bert"].items()
    }
    bert = {
        "model_type": "bert",
        "layer_norm_eps": ORIGINAL_EPSILON,
        "position_embedding_type": "absolute",
    }
    return {
        **(bert if config.family == "bert" else {}),
        **ids,
        **config.to_values(),
        "architectures": [its_class],
        "torch_dtype": "float32",
    }


def _write_json(path: str, value: Mapping[str, Any]) -> None:
    storage.write_bytes(path, json_bytes(value))


def check_new(output: str) -> None:
    """Refuses an output that exists.

    Raises:
      InputError: it exists.
    """
    output = output.rstrip("/")
    if storage.exists(output):
        raise InputError(f"--output={output}: already exists; name a new folder")


def write_whole(output: str, write: Callable[[str], None]) -> None:
    """Writes a folder next to the output and renames it, so that nobody loads an incomplete one."""
    output = output.rstrip("/")
    check_new(output)
    with (
        locks.file_held(output, "--output"),
        storage.temporary_path(output, f"--output={output}") as temporary,
    ):
        storage.make_folder(temporary)
        write(temporary)
        storage.move(temporary, output)
