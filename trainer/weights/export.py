"""Folders for other systems: transformers, sentence-transformers, ColBERT, the original release."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from beambert import io
from beambert.errors import InputError
from beambert.folders import file_held
from beambert.model.checkpoint_names import original_name
from beambert.model.config import ORIGINAL_EPSILON
from beambert.model.families.debertav2 import merged
from beambert.model.families.family import ENCODER
from beambert.model.families.table import family_of
from beambert.model.objectives import RTD
from beambert.model.sentence_encoder import DIMENSIONS, Pooling
from beambert.model_files import CARD_FILE, PRETRAINING, WEIGHTS_FILE
from beambert.pipelines.tasks.task import LATE_INTERACTION, SPARSE
from beambert.pipelines.tasks.texts import markers_of
from beambert.pipelines.tokenizers.vocabulary import TOKENIZER_FILE
from beambert.trainer import model_folders
from beambert.trainer.embedding import embedder
from beambert.trainer.model_folders import ModelFolder
from beambert.trainer.models import pretrained_model, task_model
from beambert.trainer.tasks.base import objective_of_kind
from beambert.trainer.weights.arrays import to_bytes
from beambert.trainer.weights.config_files import CONFIG_FILES
from beambert.trainer.weights.model_card import model_card
from beambert.trainer.weights.tokenizer_files import exported_files, json_bytes

ORIGINAL_CONFIG_FILE, HUGGING_FACE_CONFIG_FILE = CONFIG_FILES
# The names of the original release's checkpoint files begin with this.
CHECKPOINT_PREFIX = "bert_model.ckpt"
# The settings of ColBERT.
COLBERT_FILE = "artifact.metadata"
# The names of the folders of modules, as sentence-transformers numbers them, and where its classes
# lie; newer releases still know these names.
_POOLING_FOLDER, _NORMALIZE_FOLDER = f"1_{embedder.POOLING}", f"2_{embedder.NORMALIZE}"
_PACKAGE = "sentence_transformers.models"
_SPARSE_PACKAGE, _SPLADE_FOLDER = "sentence_transformers.sparse_encoder.models", "1_SpladePooling"
STATIC = "StaticEmbedding"
# The share of a token of middling weight: 10^-3 to 10^-4 were the best (Arora et al., section 4).
_STATIC_SMOOTHING = 1e-3


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
        ("windows", "it reads long texts in windows"),
    ):
        if found.training.get(setting):
            raise InputError(
                f"--model={model_dir}: {what}, which no class of transformers does; export it as a "
                "SavedModel"
            )

    with new_folder(output) as folder:
        _write_hugging_face(folder, found)
        sha256 = io.sha256_of(f"{folder}/{WEIGHTS_FILE}")
        card = model_card(found, WEIGHTS_FILE, sha256, license)
        io.write_bytes(f"{folder}/{CARD_FILE}", card.encode())
        if found.training["kind"] == LATE_INTERACTION:
            _write_json(f"{folder}/{COLBERT_FILE}", _colbert_settings(found))


def export_sentence_transformers(
    model_dir: str, output: str, pooling: str | None = None, is_normalized: bool | None = None
) -> None:
    """Writes a folder that sentence-transformers loads, with the vectors of `beambert embed`.

    Args:
      model_dir: folder of an encoder of this package.
      output: folder to make.
      pooling: `mean` or `cls`; None for what the model has learnt, or else mean.
      is_normalized: whether the vectors get the length 1 (default: True).

    Raises:
      InputError: the model is no encoder, or the output exists already.
    """
    found, learnt = _encoder(model_dir), Pooling(is_normalized=True)
    if found.training["kind"] == SPARSE:
        _export_sparse(found, output, pooling, is_normalized)
        return
    if found.training["kind"] != PRETRAINING:
        learnt = embedder.read_settings(model_dir, "--model").pooling
    pooling = pooling or learnt.mode
    is_normalized = learnt.is_normalized if is_normalized is None else is_normalized
    modules = [("", embedder.TRANSFORMER), (_POOLING_FOLDER, embedder.POOLING)]
    modules += [(_NORMALIZE_FOLDER, embedder.NORMALIZE)] if is_normalized else []
    listed = [_module(index, *module) for index, module in enumerate(modules)]
    of_pooling = {"word_embedding_dimension": found.config.hidden_size}
    of_pooling |= {name: mode == pooling for name, mode in embedder.MODES_THERE.items()}
    length = {"max_seq_length": found.training["max_seq_length"], "do_lower_case": False}

    with new_folder(output) as folder:
        _write_hugging_face(folder, found, is_bare=True)
        _write_json(f"{folder}/{embedder.MODULES_FILE}", listed)
        _write_json(f"{folder}/{_POOLING_FOLDER}/{embedder.MODULE_FILE}", of_pooling)
        _write_json(f"{folder}/{embedder.ENCODER_FILE}", length)
        _write_json(f"{folder}/{embedder.SETTINGS_FILE}", {"similarity_fn_name": "cosine"})
        if is_normalized:
            io.make_folder(f"{folder}/{_NORMALIZE_FOLDER}")


def _export_sparse(found: ModelFolder, output: str, *given: Any) -> None:
    """Writes a folder that SparseEncoder of sentence-transformers loads."""
    if given != (None, None):
        raise InputError(
            f"--model={found.path}: makes sparse vectors, which have no pooling and no length; "
            "leave --pooling and --normalize out"
        )
    listed = [
        _module(0, "", "MLMTransformer", _SPARSE_PACKAGE),
        _module(1, _SPLADE_FOLDER, "SpladePooling", _SPARSE_PACKAGE),
    ]
    of_pooling = {"pooling_strategy": "max", "activation_function": "relu"}
    settings = {"model_type": "SparseEncoder", "similarity_fn_name": "dot"}

    with new_folder(output) as folder:
        _write_hugging_face(folder, found)
        _write_json(f"{folder}/{embedder.MODULES_FILE}", listed)
        _write_json(f"{folder}/{_SPLADE_FOLDER}/{embedder.MODULE_FILE}", of_pooling)
        length = {"max_seq_length": found.training["max_seq_length"], "do_lower_case": False}
        _write_json(f"{folder}/{embedder.ENCODER_FILE}", length)
        _write_json(f"{folder}/{embedder.SETTINGS_FILE}", settings)


def export_static(model_dir: str, output: str) -> None:
    """Writes static embeddings, which sentence-transformers loads as a StaticEmbedding.

    The vector of a text is the mean of the vectors of its tokens, so that a processor makes tens of
    thousands a second. That of a token is the encoder's embedding of the token alone, less the mean
    of all, times a weight that is less for frequent tokens (Tulkens and van Dongen 2024, Model2Vec;
    Arora et al. 2017, A simple but tough-to-beat baseline for sentence embeddings, equation 3). How
    frequent a token is follows from its place in the vocabulary, by Zipf's law.

    Args:
      model_dir: folder of an encoder of this package.
      output: folder to make.

    Raises:
      InputError: the model is no encoder, or the output exists already.
    """
    io.check_new(output.rstrip("/"))
    found = _encoder(model_dir)
    special = dataclasses.asdict(found.vocabulary.special).values()
    texts = [number for number in range(len(found.vocabulary)) if number not in special]
    vectors_VH = embedder.open_embedder(model_dir).of_tokens(texts)
    vectors_VH -= vectors_VH.mean(axis=0)
    shares_V = 1 / np.arange(1, len(texts) + 1)
    weights_V = _STATIC_SMOOTHING / (_STATIC_SMOOTHING + shares_V / shares_V.sum())
    # Tokens that stand for none of the text are zero.
    table = np.zeros((len(found.vocabulary), vectors_VH.shape[1]), np.float32)
    table[texts] = vectors_VH * weights_V[:, None]

    with new_folder(output) as folder:
        listed = [_module(0, "", STATIC), _module(1, _NORMALIZE_FOLDER, embedder.NORMALIZE)]
        _write_json(f"{folder}/{embedder.MODULES_FILE}", listed)
        _write_json(f"{folder}/{embedder.SETTINGS_FILE}", {"similarity_fn_name": "cosine"})
        io.make_folder(f"{folder}/{_NORMALIZE_FOLDER}")
        files = exported_files(found)
        io.write_bytes(f"{folder}/{TOKENIZER_FILE}", files[TOKENIZER_FILE])
        io.write_bytes(f"{folder}/{WEIGHTS_FILE}", to_bytes({"embedding.weight": table}))


def export_tensorflow(model_dir: str, output: str) -> None:
    """Writes the original release's files: a TF1 checkpoint, bert_config.json, vocab.txt.

    Args:
      model_dir: folder of an encoder or a fine-tuned model.
      output: folder to make.

    Raises:
      InputError: the model cannot be used, or the output exists already.
    """
    found = model_folders.open_model(model_dir, "--model")
    lacks = ""
    if found.config.family != "bert":
        lacks = family_of(found.config).title
    elif found.training["kind"] == LATE_INTERACTION:
        lacks = "layer for vectors of tokens"
    elif found.config.layer_norm_eps != ORIGINAL_EPSILON:
        lacks = f"layer_norm_eps {found.config.layer_norm_eps}"
    if lacks:
        raise InputError(f"--to=tf1: the original release has no {lacks}; give --to=huggingface")

    import tensorflow as tf

    with new_folder(output) as folder:
        weights = _weights(_load(found), original_name)
        tf.raw_ops.SaveV2(
            prefix=f"{folder}/{CHECKPOINT_PREFIX}",
            tensor_names=list(weights),
            shape_and_slices=[""] * len(weights),
            tensors=[tf.constant(value) for value in weights.values()],
        )
        io.write_bytes(f"{folder}/{ORIGINAL_CONFIG_FILE}", found.config.to_json().encode())
        for name, data in found.vocabulary.files().items():
            io.write_bytes(f"{folder}/{name}", data)


@contextlib.contextmanager
def new_folder(output: str) -> Iterator[str]:
    """Yields a folder next to the output and renames it, so that nobody loads an incomplete one.

    Raises:
      InputError: the output exists already, or cannot be written.
    """
    output = output.rstrip("/")
    io.check_new(output)
    with (
        file_held(output),
        io.temporary_path(output, f"--output={output}") as temporary,
    ):
        io.make_folder(temporary)
        yield temporary
        io.move(temporary, output)


def _encoder(model_dir: str) -> ModelFolder:
    """Opens a model that makes one vector of each text.

    Raises:
      InputError: it makes none.
    """
    found = model_folders.open_model(model_dir, "--model")
    kind = found.training["kind"]
    if kind != PRETRAINING and (reason := objective_of_kind(kind).NOT_FOR_SENTENCES):
        raise InputError(f"--model={model_dir}: {reason}")
    return found


def _module(index: int, path: str, kind: str, package: str = _PACKAGE) -> dict[str, Any]:
    """Returns the entry of a module of sentence-transformers in its list of them."""
    return {"idx": index, "name": str(index), "path": path, "type": f"{package}.{kind}"}


def _write_hugging_face(folder: str, found: ModelFolder, is_bare: bool = False) -> None:
    """Writes the files that `transformers` loads, those of the tokenizer too, into a folder.

    Args:
      folder: the folder.
      found: the model.
      is_bare: whether to write the encoder without heads, as the class by which servers such as
        vLLM know an encoder of texts.
    """
    family = family_of(found.config)
    if is_bare:
        config = _configuration(found, family.class_prefix + ENCODER)
        names = family.namer(ENCODER)
    elif found.training.get("objective") == RTD:
        config = _configuration(found, family.discriminator_class)
        if found.config.family == "bert":
            config |= {"model_type": "electra", "embedding_size": found.config.embedding_width}
        names = family.discriminator_name
    else:
        ending, more = _class_of(found)
        config = _configuration(found, family.class_prefix + ending) | more
        # The classes of ColBERT have the encoder by its prefix, and a layer beside it.
        names = family.namer("" if found.training["kind"] == LATE_INTERACTION else ending)
    weights = _weights(_load(found), names)
    io.write_bytes(f"{folder}/{WEIGHTS_FILE}", to_bytes(weights))
    _write_json(f"{folder}/{HUGGING_FACE_CONFIG_FILE}", config)
    for name, content in exported_files(found).items():
        io.write_bytes(f"{folder}/{name}", content)


def _class_of(found: ModelFolder) -> tuple[str, dict[str, Any]]:
    """Returns the ending of the name of the class, and further entries of its configuration."""
    training = found.training
    if training["kind"] == PRETRAINING:
        return family_of(found.config).pretraining_classes[training["objective"]], {}
    kind, more = objective_of_kind(training["kind"]), {}
    if kind.HUGGING_FACE_CLASS is None:
        raise InputError(
            f"--to=huggingface: no class of transformers has the head of --task={training['kind']};"
            " export it as a SavedModel"
        )
    if kind.NAMES_LABELS:
        # `transformers` counts the names; text-embeddings-inference needs ModernBERT's written.
        more["num_labels"] = len(training["labels"])
        more["id2label"] = {str(index): label for index, label in enumerate(training["labels"])}
        more["label2id"] = {label: index for index, label in enumerate(training["labels"])}
    return kind.HUGGING_FACE_CLASS, more | dict(kind.HUGGING_FACE_CONFIG)


def _configuration(found: ModelFolder, its_class: str) -> dict[str, Any]:
    """Returns the content of config.json."""
    special, config = found.vocabulary.special, found.config
    ids = {"pad_token_id": special.padding}
    if config.family == "bert":
        ids |= {"model_type": "bert", "layer_norm_eps": ORIGINAL_EPSILON}
    else:
        ids |= dict.fromkeys(("bos_token_id", "cls_token_id"), special.classify)
        ids |= dict.fromkeys(("eos_token_id", "sep_token_id"), special.separate)
    # Defaults of `transformers`, which text-embeddings-inference does not have.
    if config.family == "modernbert":
        ids |= {"initializer_cutoff_factor": 2.0}
    if config.family == "deberta-v2":
        ids |= {"pooler_hidden_size": config.hidden_size}
    fixed = {key: value for key, value in config.fixed.items() if value is not None}
    more = {"architectures": [its_class], "torch_dtype": "float32"}
    return ids | fixed | config.to_values() | more


def _colbert_settings(found: ModelFolder) -> dict[str, Any]:
    query, document = markers_of(found.vocabulary)
    return {
        "dim": DIMENSIONS,
        "query_maxlen": found.training["query_length"],
        "doc_maxlen": found.training["max_seq_length"],
        "query_token_id": found.vocabulary.tokens[query],
        "doc_token_id": found.vocabulary.tokens[document],
        "query_token": "[Q]",
        "doc_token": "[D]",
        "similarity": "cosine",
        "mask_punctuation": True,
        "attend_to_mask_tokens": False,
    }


def _load(found: ModelFolder) -> keras.Model:
    return (pretrained_model if found.training["kind"] == PRETRAINING else task_model)(found)


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
            weights[name] = value.T if is_transposed else value
    return weights


def _write_json(path: str, value: Mapping[str, Any] | list[Any]) -> None:
    io.write_bytes(path, json_bytes(value))
