"""Serving folders: each export is the next version and records the model that it was made from."""

import json
from collections.abc import Sequence
from typing import Any

from beambert import locks, saved_models, storage
from beambert.errors import InputError
from beambert.model_files import (
    CARD_FILE,
    PRETRAINING,
    RESULTS_FILE,
    SAVED_MODEL_FOLDER,
    weights_sha256,
)
from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.tasks.task import CLASSIFICATION, MULTI_LABEL
from beambert.pipelines.tokenizers.vocabulary import TOKENIZER_FILE, TokenizerVocabulary
from beambert.process import logging_restored
from beambert.storage import parse_object
from beambert.trainer import model_folders
from beambert.trainer.models import pretrained_model, task_model
from beambert.trainer.serving.card import served_card
from beambert.trainer.serving.publishing import (
    EXTRA_ASSETS,
    SOURCE_FILE,
    files_sha256,
    graph_sha256,
    publish,
)
from beambert.trainer.serving.saved_model import EncoderModule, save_module


def check_number(number: int | None, form: str = "savedmodel") -> None:
    """Refuses the number of a version that servers don't read; None passes.

    Args:
      number: number of the version.
      form: what is exported, a value of `--to`; only a SavedModel has versions.

    Raises:
      InputError: the number is less than 1, or what is exported has none.
    """
    if number is not None and (number < 1 or form != "savedmodel"):
        raise InputError(
            f"--version={number}: must be at least 1, with --to=savedmodel; correct it or "
            "leave it out"
        )


@logging_restored()
def export(model_dir: str, output: str, trusts: bool = False, number: int | None = None) -> str:
    """Writes a model folder as the next version in a serving folder.

    Two exports at the same time make two versions. An existing version is never changed, and a new
    one gets its number only when it is complete. `SOURCE_FILE` in its `assets.extra`, which servers
    ignore, records the model that it was made from; `CARD_FILE` says how to load the version.

    Args:
      model_dir: folder of a fine-tuned model or an encoder.
      output: folder that holds a folder for each version, as TensorFlow Serving reads it.
      trusts: whether the graph of a fine-tuned model may do anything, see
        `saved_models.check_graph`.
      number: number of the version; None for the next free one.

    Returns:
      the path of the new version.

    Raises:
      InputError: the number or the model cannot be used, or the output holds something else.
    """
    check_number(number)
    found = model_folders.open_model(model_dir, "--model")
    version = number or next_version(output)
    if found.training["kind"] == PRETRAINING:
        module = _encoder_module(found)
        functions = module.functions
    else:
        module = _evaluated_module(found, trusts)
        functions = module.signatures
    with (
        storage.temporary_path(f"{output}/{version}", output) as temporary,
        locks.temporary_held(temporary),
    ):
        save_module(module, functions, temporary)
        weights = weights_sha256(model_dir)
        _write_source(model_dir, weights, temporary)
        if isinstance(found.vocabulary, TokenizerVocabulary):  # Its callers need the tokenizer.
            for name, data in found.vocabulary.files().items():
                storage.write_bytes(f"{temporary}/{EXTRA_ASSETS}/{name}", data)
        card = served_card(functions["serving_default"], found, weights, _results(found.path))
        storage.write_bytes(f"{temporary}/{CARD_FILE}", card.encode())
        # Still under the lock: without it, another export takes the folder for a dead one.
        return publish(temporary, output, lambda: number or next_version(output))


def _encoder_module(found: model_folders.ModelFolder) -> EncoderModule:
    length = found.training["max_seq_length"]
    text_features = TextFeatures(found.vocabulary, found.do_lower_case, length)
    return EncoderModule(pretrained_model(found).encoder, text_features)


def _evaluated_module(found: model_folders.ModelFolder, trusts: bool) -> Any:
    """Returns the loaded SavedModel of a fine-tuned model, which `beambert evaluate` judges.

    It is served as it was evaluated. Writing it again replaces the functions that save and restore.
    """
    task_model(found)  # It refuses weights that are not those of the SavedModel.
    path = f"{found.path}/{SAVED_MODEL_FOLDER}"
    return saved_models.load(path, f"--model={found.path}", trusts)


def _results(model_dir: str) -> dict[str, float] | None:
    """Returns the metrics of a fine-tuned model on dev; None for an encoder."""
    path = f"{model_dir}/{RESULTS_FILE}"
    return json.loads(storage.read_bytes(path)) if storage.exists(path) else None


def _write_source(model_dir: str, weights: str, path: str) -> None:
    source = {
        "model": storage.absolute(model_dir),
        "weights_sha256": weights,
        "graph_sha256": graph_sha256(path),
        "files_sha256": files_sha256(path),
    }
    storage.write_bytes(
        f"{path}/{EXTRA_ASSETS}/{SOURCE_FILE}", json.dumps(source, indent=1).encode()
    )


def served_model(output: str) -> tuple[str, dict[str, str]] | None:
    """Returns the path of the newest version and the model it was made from; None if there is none.

    The model is given by its folder (`model`) and its `weights_sha256`.

    Raises:
      InputError: the folder holds something else, or the version does not record its model.
    """
    version = next_version(output) - 1
    if not version:
        return None
    path = f"{output}/{version}"
    try:
        source = parse_object(storage.read_bytes(f"{path}/{EXTRA_ASSETS}/{SOURCE_FILE}"))
        return path, {name: source[name] for name in ("model", "weights_sha256")}
    except (InputError, ValueError, KeyError) as error:
        raise InputError(
            f"{path}: does not record its model (no {EXTRA_ASSETS}/{SOURCE_FILE}, which "
            "`beambert export` writes), so no model can be compared with it; use another folder "
            "for serving"
        ) from error


def next_version(output: str) -> int:
    """Returns the greatest version number in a serving folder plus one.

    Raises:
      InputError: the folder holds something else.
    """
    if storage.exists(output) and not storage.is_folder(output):
        raise InputError(f"--output={output}: is a file; give a folder of versions")
    names = [name for name in storage.list_folder(output) if not storage.is_temporary(name)]
    others = [name for name in names if not name.isdecimal()]
    if others:
        raise InputError(
            f"--output={output}: holds something else ({others[0]}); give a folder of versions"
        )
    return max((int(name) for name in names), default=0) + 1


def labels_of(model_dir: str) -> list[str]:
    """Returns the labels of a classifier of single texts, in the order of their indices.

    Raises:
      InputError: the model is no classifier, or takes pairs of texts.
    """
    found = model_folders.open_model(model_dir, "--model")
    if found.training["kind"] not in (CLASSIFICATION, MULTI_LABEL):
        raise InputError(f"--text: {model_dir} is no classifier; leave --text out")
    if found.training["is_pair"]:
        raise InputError(f"--text: {model_dir} takes pairs of texts; leave --text out")
    if isinstance(found.vocabulary, TokenizerVocabulary):
        raise InputError(
            f"--text: the SavedModel of {model_dir} takes ids; leave --text out, and ask it with "
            "`beambert predict`"
        )
    return found.training["labels"]


def describe(path: str) -> str:
    """Returns the line that says what an exported version takes."""
    if storage.exists(f"{path}/{EXTRA_ASSETS}/{TOKENIZER_FILE}"):
        return (
            f"{path}: a SavedModel that takes ids, since no graph of TensorFlow can run its "
            f"tokenizer, which is {EXTRA_ASSETS}/{TOKENIZER_FILE} in it"
        )
    return f"{path}: a SavedModel that takes raw text"


def describe_answer(path: str, text: str, labels: Sequence[str]) -> str:
    """Returns the text and a line per label, most probable first, from an exported classifier."""
    answer = saved_models.call(saved_models.load(path, path, True), {"text": [text]})
    probabilities = answer["probabilities"][0]
    ranked = sorted(zip(probabilities, labels, strict=True), reverse=True)
    lines = [f"  {probability:6.1%}  {label}" for probability, label in ranked]
    return "\n".join([f'"{text}"', *lines])
