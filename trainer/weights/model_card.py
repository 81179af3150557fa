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
from beambert.model.objectives import BERT, COPY, LTR, MLM, RTD, SOP
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
    LTR: "text-generation",
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
# Settings of a pre-training that say how it masks.
_OF_MASKING = ("masking", "mask_rate", "mask_replacements", "do_whole_word_mask")
# Parameters of the records that say what was made of the text.
_OF_RECORDS = (
    *("pairs", "masks", "masked_lm_prob", "max_predictions_per_seq", "do_whole_word_mask"),
    *("do_span_mask", "dupe_factor", "short_seq_prob"),
)
# Parameters of the records that say which text was taken.
_OF_TEXT = (
    *("keep_languages", "min_language_probability", "quality_filter", "min_document_characters"),
    *("duplicates", "blocklist", "scrub"),
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
    rows = [("objective", objective_of(training))] if training["kind"] == PRETRAINING else []
    rows += [(name, training[name]) for name in _OF_MASKING if name in training]
    rows += training.get("optimizer", {}).items()
    rows += [(name, loop[name]) for name in ("train_batch_size", "random_seed") if name in loop]
    rows += [(f"examples ({part})", n) for part, n in training.get("examples", {}).items()]
    return [(name, value) for name, value in rows if isinstance(value, str | int | float)]


def _text(info: RecordsInfo) -> str:
    """Returns the section on the text of a records folder."""
    length = info.parameters["max_seq_length"]
    documents = info.counts.get("documents", {})
    parts = [f"## Text of the records of {length} tokens"]
    if sources := info.counts.get("sources"):
        rows = [
            (_end_of(name), source["documents"], source["tokens"], *_shares(source))
            for name, source in sources.items()
        ]
        heads = ("source", "documents", "tokens", "share of the records", "passes over it")
        parts.append(_table(heads[: len(rows[0])], rows))
    if documents:
        rows = [("read", documents["read"]), ("used", documents["used"])]
        if held_out := documents.get("in_other_split"):
            rows.append(("begin in what is held out", held_out))
        for what in ("dropped", "rejected"):
            rows += [(f"{what}: {why}", n) for why, n in documents.get(what, {}).items()]
        parts.append(_table(("documents", "number"), rows))
    if scrubbed := documents.get("scrubbed"):
        parts.append(_table(("replaced by a placeholder", "number"), [*scrubbed.items()]))
    for head, names in (("record parameter", _OF_RECORDS), ("filter", _OF_TEXT)):
        given = [(name, info.parameters[name]) for name in names if name in info.parameters]
        parts.append(_table((head, "value"), [(n, json.dumps(value)) for n, value in given]))
    if evaluation := info.parameters.get("decontaminate"):
        parts.append(_evaluation_files(evaluation))
    return "\n\n".join(parts)


def _evaluation_files(given: Mapping[str, Any]) -> str:
    """Returns the table of the files that no document shares a passage with.

    Args:
      given: what `info.json` has of them, see `EvaluationTexts`.
    """
    heads = ("evaluation files, whose passages were left out", "SHA-256")
    if not isinstance(given["files"], list):
        return _table(heads, [(f"list of {given['files']:,} files", given["sha256"])])
    return _table(heads, [(_end_of(file["path"]), file["sha256"]) for file in given["files"]])


def _end_of(path: str) -> str:
    """Returns a path with its last folder only: the others tell of a machine, not of the text."""
    return "/".join(path.split("/")[-2:])


def _shares(source: Mapping[str, Any]) -> list[str]:
    """Returns the share of a source of `data --source` and the passes over it; none of another."""
    if "passes" not in source:
        return []
    return [f"{source['share']:.2%}", f"{source['passes']:.2f}"]


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
