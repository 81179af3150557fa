"""The README.md of a model for others: a model card as the Hugging Face Hub reads it.

It begins with metadata in YAML (huggingface.co/docs/hub/model-cards) and has what the folders know
for certain: sizes, settings, sources and counts of the text, figures on held-out data, checksums.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from beambert import io
from beambert.errors import InputError, one_line
from beambert.model.families.table import family_of
from beambert.model.objectives import RTD
from beambert.model_files import CURVES_FILE, PRETRAINING, RESULTS_FILE, weights_sha256
from beambert.pipelines.records.contract import INFO_FILE, RecordsInfo
from beambert.trainer import model_folders
from beambert.trainer.loop.checkpoints import best_step
from beambert.trainer.loop.trackers import rows_of
from beambert.trainer.model_folders import ModelFolder
from beambert.trainer.tasks.base import objective_of_kind

# The Hub's names of licences are such words, as apache-2.0, cc-by-sa-4.0 or other.
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
_CARD = """\
---
{metadata}
---

# {title}

A {family} model of {config.num_hidden_layers} layers, width {config.hidden_size} and \
{config.num_attention_heads} heads, with a vocabulary of {tokens:,} tokens. It was trained by \
BeamBERT on sequences of up to {length} tokens.

{usage}{sections}
"""

# Tasks of the Hub that transformers has a pipeline for.
_PIPELINES = (
    *("fill-mask", "feature-extraction", "text-classification", "token-classification"),
    "question-answering",
)
_USAGE = """\
## Use

```python
from transformers import pipeline

model = pipeline("{task}", model="FOLDER")  # the folder of this file
```

"""


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


def model_card(
    found: ModelFolder, weights: str, sha256: str, license: str | None = None, usage: str = ""
) -> str:
    """Returns the text of the card.

    Args:
      found: the model.
      weights: what the card calls the weights next to it.
      sha256: checksum of these.
      license: the Hub's name of the model's licence; None to say nothing of it.
      usage: sections on how to use it, if that is not with transformers.
    """
    training, path = found.training, f"{found.path}/{RESULTS_FILE}"
    sections = {"Checksums (SHA-256)": {weights: sha256, "vocabulary": found.vocabulary.sha256}}
    if io.exists(path):
        results = io.read_object(path)
        numbers = {name: v for name, v in results.items() if isinstance(v, int | float)}
        sections["Results on held-out data"] = numbers
    if steps := _steps_of(found):
        sections["Steps"] = steps
    languages: set[str] = set()
    for encoder in _lineage(found):
        whose = "" if encoder is found else f" of the encoder {encoder.training['sha256'][:12]}"
        sections[f"Training{whose}"] = encoder.training
        for info in _records_of(encoder):
            title = f"Text of the records of {info.parameters['max_seq_length']} tokens{whose}"
            sections[title] = {"counts": info.counts, "parameters": info.parameters}
            languages |= {*info.parameters.get("keep_languages", ())}
    of_family = family_of(found.config).title
    is_encoder = training["kind"] == PRETRAINING
    if is_encoder:
        hub_task = "feature-extraction" if training["objective"] == RTD else "fill-mask"
    else:
        hub_task = objective_of_kind(training["kind"]).HUB_TASK
    metadata = {
        "library_name": None if usage else "transformers",
        "license": license,
        "language": sorted(languages),
        "pipeline_tag": hub_task,
        "tags": [found.config.family, "beambert"],
    }
    if not usage and hub_task in _PIPELINES:
        usage = _USAGE.format(task=hub_task)
    kind = "encoder" if is_encoder else f"for {training.get('task', training['kind'])}"
    return _CARD.format(
        # A value of JSON is one of YAML, too.
        metadata="\n".join(f"{name}: {json.dumps(v)}" for name, v in metadata.items() if v),
        title=one_line(f"{of_family} {kind}"),
        family=of_family,
        config=found.config,
        tokens=len(found.vocabulary),
        length=training["max_seq_length"],
        usage=usage,
        sections="\n\n".join(f"## {name}\n\n{block(value)}" for name, value in sections.items()),
    )


def _steps_of(found: ModelFolder) -> dict[str, int]:
    """Returns the steps that were planned, trained and kept, if a training ended or chose early."""
    loop, path = found.training["loop"], f"{found.path}/{CURVES_FILE}"
    if loop["patience"] is None or not io.exists(path):
        return {}
    rows = rows_of(io.read_bytes(path))
    evaluations = {row["step"]: row for row in rows if row["split"] == "eval"}
    return {
        "planned": found.training["optimizer"]["num_train_steps"],
        "trained": max(row["step"] for row in rows),
        "kept": best_step(evaluations, loop["best_metric"]),
    }


def block(value: Any) -> str:
    """Returns a value as a block of JSON in Markdown, which nothing in it can end."""
    lines = json.dumps(_portable(value), indent=1, ensure_ascii=False).replace("`", "\\u0060")
    return f"```json\n{chr(10).join(map(one_line, lines.splitlines()))}\n```"


def _portable(value: Any, name: str = "") -> Any:
    """Returns a value without what is only of use where the model was made.

    Paths keep their last folder: the others are a machine's. Of thousands of checksums of records
    there is one, that of their list.
    """
    if name == "labels":
        return value
    if name.endswith("records_sha256"):
        return hashlib.sha256("\n".join(value).encode()).hexdigest()
    if isinstance(value, dict):
        return {_end_of(key): _portable(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_portable(each) for each in value]
    return _end_of(value) if isinstance(value, str) else value


def _end_of(path: str) -> str:
    return "/".join(path.split("/")[-2:])


def _lineage(found: ModelFolder) -> Iterator[ModelFolder]:
    """Yields a model, and the encoders that it and they began from, as far as they are as before.

    The encoder of a retraining goes on from the last one, and so on; the records of each hold only
    what was new. Those of encoders have their checksums as `sha256` in their settings.
    """
    yield found
    with contextlib.suppress(InputError, KeyError, TypeError):
        while sha256 := found.training["init_sha256"]:
            found = model_folders.open_model(found.training["init"], "init")
            if found.training["kind"] != PRETRAINING or weights_sha256(found.path) != sha256:
                return
            training = {**found.training, "sha256": sha256}
            yield ModelFolder(found.path, found.config, found.vocabulary, training)


def _records_of(encoder: ModelFolder) -> Iterator[RecordsInfo]:
    """Yields what the records of an encoder are described by, so far as they are still there."""
    for folder in dict.fromkeys(encoder.training.get("data", ())):
        path = f"{folder}/{INFO_FILE}"
        with contextlib.suppress(InputError):
            yield RecordsInfo.from_json(io.read_bytes(path).decode(), path)
