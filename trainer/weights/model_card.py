"""The README.md of a folder for `transformers`: a model card as the Hugging Face Hub reads it.

It begins with metadata in YAML (huggingface.co/docs/hub/model-cards) and tells what the folders
know for certain: sizes, settings, sources and counts of the text, figures on held-out data,
checksums.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from beambert import storage
from beambert.errors import InputError
from beambert.model.families.table import family_of
from beambert.model.objectives import BERT, COPY, MLM, RTD, SOP
from beambert.model_files import PRETRAINING, RESULTS_FILE
from beambert.model_files import weights_sha256 as weights_sha256_of
from beambert.pipelines.records.contract import INFO_FILE, RecordsInfo
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
from beambert.trainer import model_folders
from beambert.trainer.models import objective_of

# Objective or kind of model -> the Hub's name of what it does (huggingface.co/tasks).
_PIPELINES = {
    BERT: "fill-mask",
    MLM: "fill-mask",
    SOP: "fill-mask",
    COPY: "fill-mask",
    RTD: "feature-extraction",
    CLASSIFICATION: "text-classification",
    MULTI_LABEL: "text-classification",
    REGRESSION: "text-classification",
    CHOICE: "multiple-choice",
    TAGGING: "token-classification",
    SPAN: "question-answering",
    EMBEDDING: "sentence-similarity",
    SIMILARITY: "sentence-similarity",
    RERANK: "text-ranking",
    LATE_INTERACTION: "sentence-similarity",
}
# The Hub's names of licences are such words, as apache-2.0, cc-by-sa-4.0 or other.
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
# Settings of a training that the card tells.
_SETTINGS = (
    *("objective", "masking", "mask_rate", "mask_replacements", "do_whole_word_mask"),
    *("optimizer", "examples"),
)


def check_license(name: str) -> None:
    """Refuses what cannot be the Hub's name of a licence.

    Raises:
      InputError: it cannot.
    """
    if not _LICENSE.fullmatch(name):
        raise InputError(
            f"--license={name}: is no name of a licence on the Hugging Face Hub; name it as there, "
            "such as apache-2.0, cc-by-sa-4.0 or other"
        )


def model_card(found: model_folders.ModelFolder, weights_sha256: str, license: str | None) -> str:
    """Returns the text of the card.

    Args:
      found: the model.
      weights_sha256: checksum of the weights next to the card.
      license: the Hub's name of the model's licence; None to say nothing of it.
    """
    infos = _records_infos(found.training) if _is_pretrained(found) else []
    sections = [
        _metadata(found, infos, license),
        f"# {_title(found)}\n\n{_describe(found)}",
        *training_sections(found),
        _results(found.path),
        checksums_section(found, "model.safetensors", weights_sha256),
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def training_sections(found: model_folders.ModelFolder) -> list[str]:
    """Returns the sections on how a model was trained, and on which text.

    Of a fine-tuned model this includes its encoder, if that is where it was and as it was.
    """
    sections = ["## Training\n\n" + _table(("setting", "value"), _settings(found.training))]
    encoder = found if _is_pretrained(found) else _encoder_of(found.training)
    if encoder is None:
        return sections
    if encoder is not found:
        rows = _settings(encoder.training)
        sections.append("## Training of its encoder\n\n" + _table(("setting", "value"), rows))
    sections += [_text(info) for info in _records_infos(encoder.training)]
    earlier = _earlier_text(encoder)
    return [*sections, earlier] if earlier else sections


def checksums_section(found: model_folders.ModelFolder, weights: str, sha256: str) -> str:
    """Returns the section on what a model's weights, and what they were made of, can be told by.

    Args:
      found: the model.
      weights: what the card calls the weights.
      sha256: checksum of the weights.
    """
    rows = [(weights, sha256), *_checksums(found)]
    return "## Checksums (SHA-256)\n\n" + _table(("what", "checksum"), rows)


def _encoder_of(training: Mapping[str, Any]) -> model_folders.ModelFolder | None:
    """Returns the encoder that a model was fine-tuned from; None if it is gone or another one."""
    with contextlib.suppress(InputError, KeyError):
        encoder = model_folders.open_model(training["init"], "init")
        if _is_pretrained(encoder) and weights_sha256_of(encoder.path) == training["init_sha256"]:
            return encoder
    return None


def _earlier_text(encoder: model_folders.ModelFolder) -> str:
    """Returns the section on the text of the encoders that this one went on from; "" without any.

    The encoder of a retraining goes on from the last one, and so on; the records of each hold only
    what was new.
    """
    rows = []
    while weights := encoder.training.get("init_sha256"):
        earlier = _encoder_of(encoder.training)
        if earlier is None:
            rows.append((weights, "not known here", ""))
            break
        for info in _records_infos(earlier.training):
            used = info.counts.get("documents", {}).get("used", "")
            rows.append((weights, info.parameters["max_seq_length"], used))
        encoder = earlier
    heads = ("weights of the encoder", "tokens of its records", "documents used")
    return "## Text that it had learned from before\n\n" + _table(heads, rows) if rows else ""


def _records_infos(training: Mapping[str, Any]) -> list[RecordsInfo]:
    """Returns what the records of an encoder tell, so far as they are still there."""
    folders = dict.fromkeys(training.get("data", ()))
    return [info for path in folders if (info := _records_info(path))]


def _is_pretrained(found: model_folders.ModelFolder) -> bool:
    return found.training["kind"] == PRETRAINING


def _records_info(folder: str) -> RecordsInfo | None:
    """Returns what a records folder tells; None if it isn't there any more."""
    path = f"{folder}/{INFO_FILE}"
    with contextlib.suppress(InputError):
        return RecordsInfo.from_json(storage.read_bytes(path).decode(), path)
    return None


def _metadata(
    found: model_folders.ModelFolder, infos: Sequence[RecordsInfo], license: str | None
) -> str:
    languages = sorted(
        {code for info in infos for code in info.parameters.get("keep_languages", ())}
    )
    values = {
        "library_name": "transformers",
        "license": license,
        "language": languages,
        "pipeline_tag": _PIPELINES[_purpose(found)],
        "tags": [found.config.family, "beambert"],
    }
    # A value of JSON is one of YAML, too.
    lines = [f"{name}: {json.dumps(value)}" for name, value in values.items() if value]
    return "\n".join(["---", *lines, "---"])


def _purpose(found: model_folders.ModelFolder) -> str:
    """Returns the objective of an encoder, or the kind of a fine-tuned model."""
    return objective_of(found.training) if _is_pretrained(found) else found.training["kind"]


def _title(found: model_folders.ModelFolder) -> str:
    title = family_of(found.config).title
    if _is_pretrained(found):
        return f"{title} encoder"
    return f"{title} for {found.training.get('task', found.training['kind'])}"


def _describe(found: model_folders.ModelFolder) -> str:
    config = found.config
    return (
        f"A {family_of(config).title} model of {config.num_hidden_layers} layers, width "
        f"{config.hidden_size} and {config.num_attention_heads} heads, with a vocabulary of "
        f"{len(found.vocabulary):,} tokens. It was trained by BeamBERT on sequences of up to "
        f"{found.training['max_seq_length']} tokens."
    )


def _settings(training: Mapping[str, Any]) -> list[tuple[str, Any]]:
    loop = training.get("loop", {})
    of_loop = {name: loop[name] for name in ("train_batch_size", "random_seed") if name in loop}
    told = {name: training[name] for name in _SETTINGS if name in training}
    if training["kind"] == PRETRAINING:
        told["objective"] = objective_of(training)
    return _rows(told | of_loop)


def _text(info: RecordsInfo) -> str:
    """Returns the section on the text of a records folder: counts, and how it was made."""
    return "\n\n".join(
        [
            f"## Text of the records of {info.parameters['max_seq_length']} tokens",
            _table(("count", "number"), _rows(info.counts)),
            _table(("parameter", "value"), _rows(info.parameters)),
        ]
    )


def _rows(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Returns the rows of a table of nested values: "documents: read" for "read" in "documents".

    Paths keep their last folder only: the others tell of a machine, not of the text.
    """
    rows: list[tuple[str, Any]] = []
    for name, value in values.items():
        name = f"{prefix}{_end_of(name)}"
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            value = {str(number): each for number, each in enumerate(value, start=1)}
        if isinstance(value, Mapping):
            rows += _rows(value, f"{name}: ")
        elif isinstance(value, str):
            rows.append((name, _end_of(value)))
        else:
            rows.append((name, value if type(value) is int else json.dumps(value)))
    return rows


def _end_of(path: str) -> str:
    return "/".join(path.split("/")[-2:])


def _results(folder: str) -> str:
    """Returns the section on held-out figures; "" without any."""
    path = f"{folder}/{RESULTS_FILE}"
    if not storage.exists(path):
        return ""
    results = json.loads(storage.read_bytes(path))
    rows = [
        (name, float(f"{value:.5g}") if isinstance(value, float) else value)
        for name, value in results.items()
        if isinstance(value, int | float)
    ]
    return "## Results on held-out data\n\n" + _table(("figure", "value"), rows) if rows else ""


def _checksums(found: model_folders.ModelFolder) -> list[tuple[str, str]]:
    training = found.training
    rows = [("vocabulary", found.vocabulary.sha256)]
    if initial := training.get("init_sha256"):
        rows.append(("weights at the beginning", initial))
    rows += [(f"examples ({part})", each) for part, each in training.get("data_sha256", {}).items()]
    for phase in training.get("phases", ()):
        # All files of a phase at once: there may be thousands.
        joined = "\n".join(phase["records_sha256"]).encode()
        rows.append(
            (
                f"list of the checksums of the records of {phase['max_seq_length']} tokens",
                hashlib.sha256(joined).hexdigest(),
            )
        )
    return rows


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    def line(cells: Sequence[Any]) -> str:
        shown = (f"{cell:,}" if type(cell) is int else str(cell) for cell in cells)
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in shown) + " |"

    return "\n".join([line(heads), "|" + "---|" * len(heads), *map(line, rows)])
