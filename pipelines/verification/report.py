"""verification.json -> the lines that the command prints."""

from collections.abc import Mapping, Sequence
from typing import Any

from beambert.console import counted, size
from beambert.pipelines.records.contract import label_words
from beambert.pipelines.records.statistics import describe_source

# Number of characters of a segment that are shown.
_SEGMENT_CHARACTERS = 150
_UNKNOWN = "unknown"


def figure_lines(figures: Mapping[str, Any]) -> list[str]:
    """Returns a line for each figure of a folder; unknown ones are left out.

    Args:
      figures: figures of a folder, from verification.json.
    """
    length, most = figures["max_seq_length"], figures["max_predictions_per_seq"]
    first, second = figures["labels"] or label_words(None)
    a, b = figures["a_tokens_average"], figures["b_tokens_average"]

    def percent(name: str, digits: int = 2) -> str:
        share = figures.get(name)
        return _UNKNOWN if share is None else f"{100 * share:.{digits}f} %"

    tokens = "tokens of A and B", f"{_number(a)} and {_number(b)}"
    if b is None:
        tokens = "tokens of the text", _number(a)
    hidden = (percent(f"hidden_as_{name}_share") for name in ("mask", "other", "same"))
    rows = {
        first: percent("is_next_share"),
        second: percent("random_next_share"),
        f"{second}, forced": percent("forced_random_next_share"),
        "filled": f"{percent('filled_share', 1)} of {length} positions",
        "documents in a record": _number(figures.get("documents_average")),
        tokens[0]: tokens[1],
        "truncated": _count(figures["truncated_tokens"], "tokens"),
        "masks": _UNKNOWN if most else "none; the training draws them",
        "predictions": f"{_number(figures['predictions_average'])} a record, at most {most}; "
        f"{percent('predictions_at_maximum_share', 1)} of the records have {most}; "
        f"{percent('lost_predictions_share', 1)} of the wanted ones do not fit",
        "predicted": f"{percent('predictions_per_filled_position')} of filled positions, "
        f"{percent('predictions_per_text_token')} of text tokens",
        "hidden": f"{' / '.join(hidden)} as [MASK] / another / the same",
        "reserved replacements": percent("reserved_replacement_share"),
        "unknown tokens": percent("unknown_share", 3),
        "ids": f"{_count(figures['lowest_id'])} to {_count(figures['highest_id'])}",
        "repeated records": percent("repeated_records_share"),
        "repeated sequences": percent("repeated_sequences_share"),
        "repeated text, at least": percent("repeated_text_share"),
        **{f"source {n}": describe_source(s) for n, s in figures.get("sources", {}).items()},
        "B of another source": percent("random_next_other_source_share"),
        "HTML entities": percent("entities_share"),
        "markup": percent("markup_share"),
        "lines of signs": percent("signs_share"),
        "gaps": percent("holes_share"),
        "begin with a small letter": percent("small_starts_share"),
        "end without a mark": percent("open_ends_share"),
        "undecodable": percent("replacements_share"),
        "broken words": percent("broken_words_share"),
        "also in training": percent("sequences_also_in_training"),
        "opening also in training": percent("openings_also_in_training"),
    }
    return [
        f"  {name:<27}{value}" for name, value in rows.items() if not value.startswith(_UNKNOWN)
    ]


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.2f}"


def _count(value: int | None, unit: str = "") -> str:
    return _UNKNOWN if value is None else f"{value:,} {unit}".rstrip()


def summarize(result: dict[str, Any]) -> str:
    """Returns the lines that the command prints about verification.json."""
    lines = []
    for folder in result["folders"]:
        lines += _folder_lines(folder)
        lines += [f"  FAULT    {text}" for text in folder["faults"]]
        lines += [f"  warning  {text}" for text in folder["warnings"]]
        lines += [f"  not checked: {text}" for text in folder["not_checked"]]
    # verification.json has the records of all folders.
    if folder := next((folder for folder in result["folders"] if folder["sample"]), None):
        lines += sample_lines(folder["sample"], folder["figures"]["labels"])
    if result["hashes_sampled"] < 1:
        lines.append(
            f"repeats are counted in a sample of {result['hashes_sampled']:.2%} of the texts"
        )
    verdict = f"{counted(result['faults'], 'fault')}, {counted(result['warnings'], 'warning')}"
    return "\n".join([*lines, verdict])


def _folder_lines(folder: dict[str, Any]) -> list[str]:
    stored = sum(file["bytes"] for file in folder["files"])
    records = sum(file["instances"] for file in folder["files"])
    files = counted(len(folder["files"]), "file")
    heading = f"{folder['path']}: {counted(records, 'instance')} in {files} ({size(stored)})"
    found = folder["figures"]
    if not found:
        return [heading]
    return [heading, *figure_lines(found)]


def sample_lines(sample: Sequence[Mapping[str, Any]], labels: Sequence[str] | None) -> list[str]:
    """Returns the lines that show records.

    Args:
      sample: records of verification.json.
      labels: meanings of the labels 0 and 1; None if there are none.
    """
    heading = f"  {counted(len(sample), 'record')}, drawn at random."
    if any(record["predictions"] for record in sample):
        heading += (
            " [shown→label] is a predicted piece: what the model sees, and what it has to predict."
        )
    lines = [heading]
    for number, record in enumerate(sample, 1):
        lines.append(f"  {number:>2}  {_about(record, labels)}")
        texts = {"": record["a"]}
        if labels:
            texts = {"A: ": record["a"], "B: ": record["b"]}
        for name, text in texts.items():
            cut = _SEGMENT_CHARACTERS - 1
            shown = text if len(text) <= _SEGMENT_CHARACTERS else text[:cut] + "…"
            lines.append(f"      {name}{shown}")
    return lines


def _about(record: Mapping[str, Any], labels: Sequence[str] | None) -> str:
    """Describes a record in a line."""
    label = labels[not record["is_next"]] + "; " if labels else ""
    name = record["file"].rpartition("/")[2]
    predictions = f", {counted(made, 'prediction')}" if (made := record["predictions"]) else ""
    return (
        f"{label}{record['filled']} of {record['positions']} positions{predictions}; "
        f"record {record['number']:,} of {name}"
    )
