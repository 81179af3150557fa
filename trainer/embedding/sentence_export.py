"""Encoders -> folders that sentence-transformers loads."""

from beambert import storage
from beambert.errors import InputError
from beambert.model.sentence_encoder import Pooling
from beambert.model_files import PRETRAINING
from beambert.pipelines.tasks.task import EMBEDDING, LATE_INTERACTION, RERANK, SIMILARITY
from beambert.trainer import model_folders
from beambert.trainer.embedding.embedder import (
    ENCODER_FILE,
    MODES_THERE,
    MODULE_FILE,
    MODULES_FILE,
    NORMALIZE,
    POOLING,
    SETTINGS_FILE,
    TRANSFORMER,
    read_settings,
)
from beambert.trainer.weights.export import write_hugging_face, write_whole
from beambert.trainer.weights.tokenizer_files import json_bytes

# The names of the folders of modules, as the library numbers them.
_POOLING_FOLDER, _NORMALIZE_FOLDER = f"1_{POOLING}", f"2_{NORMALIZE}"
# Where the library's classes lie; newer releases still know these names.
_PACKAGE = "sentence_transformers.models"
# The kinds of models that make vectors of texts.
_ENCODERS = (PRETRAINING, EMBEDDING, SIMILARITY)


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
    found = model_folders.open_model(model_dir, "--model")
    if found.training["kind"] == LATE_INTERACTION:
        raise InputError(
            f"--model={model_dir}: makes vectors of tokens, and a folder of sentence-transformers "
            "makes one vector of each text; export it with --to=huggingface"
        )
    if found.training["kind"] == RERANK:
        raise InputError(
            f"--model={model_dir}: reads pairs of texts, for which sentence-transformers has its "
            "CrossEncoder; export it with --to=huggingface, whose folder that class loads"
        )
    if found.training["kind"] not in _ENCODERS:
        raise InputError(
            f"--model={model_dir}: is no encoder that reads whole texts; name the folder of one "
            "that `beambert pretrain` made, or `finetune` for an embedding"
        )
    learnt = read_settings(model_dir, "--model").pooling
    if found.training["kind"] == PRETRAINING:
        learnt = Pooling(is_normalized=True)
    pooling = pooling or learnt.mode
    is_normalized = learnt.is_normalized if is_normalized is None else is_normalized
    modules = [("", TRANSFORMER), (_POOLING_FOLDER, POOLING)]
    modules += [(_NORMALIZE_FOLDER, NORMALIZE)] if is_normalized else []
    listed = [
        {"idx": index, "name": str(index), "path": path, "type": f"{_PACKAGE}.{kind}"}
        for index, (path, kind) in enumerate(modules)
    ]
    of_pooling = {"word_embedding_dimension": found.config.hidden_size}
    of_pooling |= {name: mode == pooling for name, mode in MODES_THERE.items()}
    length = {"max_seq_length": found.training["max_seq_length"], "do_lower_case": False}

    def write(folder: str) -> None:
        write_hugging_face(folder, found)
        for name, content in (
            (MODULES_FILE, json_bytes(listed)),
            (f"{_POOLING_FOLDER}/{MODULE_FILE}", json_bytes(of_pooling)),
            (ENCODER_FILE, json_bytes(length)),
            (SETTINGS_FILE, json_bytes({"similarity_fn_name": "cosine"})),
        ):
            storage.write_bytes(f"{folder}/{name}", content)
        if is_normalized:
            storage.make_folder(f"{folder}/{_NORMALIZE_FOLDER}")

    write_whole(output, write)
