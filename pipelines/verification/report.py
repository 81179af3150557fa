"""verification.json -> lines to print, and a page with plots."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beambert.console import counted, size
from beambert.pipelines.records.contract import label_words
from beambert.pipelines.records.statistics import OPENING_TOKENS, describe_source
from beambert.pipelines.verification.artefacts import BROKEN_SHARE
from beambert.report import (
    AMBER,
    BAD,
    BLUE,
    GOOD,
    WARNING,
    Html,
    figures,
    join,
    new_figure,
    page,
    section,
    table,
    tag,
    verdict,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Largest number of bars in a plot. With 512 lengths a bar gathers several of them.
_MOST_BARS = 64
# Number of characters of a segment on the console.
_SEGMENT_CHARACTERS = 150


_UNKNOWN = "unknown"


def figure_rows(figures: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Returns name, value and meaning of a folder's figures; unknown ones are left out.

    Args:
      figures: figures of a folder, from verification.json.
    """
    length, most = figures["max_seq_length"], figures["max_predictions_per_seq"]
    first, second = figures["labels"] or label_words(None)
    a, b = figures["a_tokens_average"], figures["b_tokens_average"]

    def percent(name: str, digits: int = 2) -> str:
        return _percent(figures.get(name), digits)

    rows = [
        (first, percent("is_next_share"), ""),
        (second, percent("random_next_share"), ""),
        (
            f"{second}, forced",
            percent("forced_random_next_share"),
            "pairs from chunks of one sentence, whose B is of another document",
        ),
        ("filled", f"{percent('filled_share', 1)} of {length} positions", ""),
        ("documents in a record", _number(figures.get("documents_average")), "average"),
        (
            "tokens of the text" if b is None else "tokens of A and B",
            _number(a) if b is None else f"{_number(a)} and {_number(b)}",
            "average, without [CLS] and [SEP]",
        ),
        ("truncated", _count(figures["truncated_tokens"], "tokens"), "cut off to fit the length"),
        ("masks", _UNKNOWN if most else "none; the training draws them", ""),
        (
            "predictions",
            f"{_number(figures['predictions_average'])} a record, at most {most}; "
            f"{percent('predictions_at_maximum_share', 1)} of the records have {most}; "
            f"{percent('lost_predictions_share', 1)} of the wanted ones do not fit",
            "",
        ),
        (
            "predicted",
            f"{percent('predictions_per_filled_position')} of filled positions, "
            f"{percent('predictions_per_text_token')} of text tokens",
            "",
        ),
        (
            "hidden",
            " / ".join(percent(f"hidden_as_{name}_share") for name in ("mask", "other", "same"))
            + " as [MASK] / another / the same",
            "the paper's shares are 80 / 10 / 10",
        ),
        (
            "reserved replacements",
            percent("reserved_replacement_share"),
            "special and unused tokens among the replacements by another token",
        ),
        ("unknown tokens", percent("unknown_share", 3), "[UNK] in the text before masking"),
        ("ids", f"{_count(figures['lowest_id'])} to {_count(figures['highest_id'])}", ""),
        (
            "repeated records",
            percent("repeated_records_share"),
            "records that equal an earlier one in tokens and masks",
        ),
        (
            "repeated sequences",
            percent("repeated_sequences_share"),
            "records that equal an earlier one before masking; several passes over the corpus make "
            "some",
        ),
        (
            "repeated text, at least",
            percent("repeated_text_share"),
            f"records whose first {OPENING_TOKENS} tokens of A occur more often than the passes "
            "over the corpus explain",
        ),
        *((f"source {n}", describe_source(s), "") for n, s in figures.get("sources", {}).items()),
        (
            "B of another source",
            percent("random_next_other_source_share"),
            "random next or swapped pairs whose B is of another --source, or pattern of --input, "
            "than A",
        ),
        ("HTML entities", percent("entities_share"), "records with an entity"),
        ("markup", percent("markup_share"), "records with HTML tags or wiki markup"),
        ("lines of signs", percent("signs_share"), "records with “= = = =” and the like"),
        ("gaps", percent("holes_share"), "records with a gap, such as “( )” or “the .”"),
        ("small starts", percent("small_starts_share"), "segments that begin with a small letter"),
        ("open ends", percent("open_ends_share"), "segments without a mark at their end"),
        (
            "undecodable",
            percent("replacements_share"),
            "records with characters in place of bytes that could not be decoded",
        ),
        (
            "broken words",
            percent("broken_words_share"),
            f"records in which more than {BROKEN_SHARE:.0%} of the tokens continue a word, as in "
            "another language than the vocabulary's",
        ),
        (
            "whole, in training",
            percent("sequences_also_in_training"),
            "held-out records that equal a training record before masking",
        ),
        (
            "opening, in training",
            percent("openings_also_in_training"),
            f"held-out records whose first {OPENING_TOKENS} tokens of A begin a training record",
        ),
    ]
    return [row for row in rows if not row[1].startswith(_UNKNOWN)]


def _percent(share: float | None, digits: int) -> str:
    return _UNKNOWN if share is None else f"{100 * share:.{digits}f} %"


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
    # The console shows the records of one folder, and the page those of all.
    if folder := next((folder for folder in result["folders"] if folder["sample"]), None):
        labels = folder["figures"]["labels"]
        lines += sample_lines(folder["sample"], labels, _SEGMENT_CHARACTERS)
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
    return [heading, *(f"  {name:<25}{value}" for name, value, _ in figure_rows(found))]


def render(result: dict[str, Any]) -> str:
    """Returns the HTML page.

    Args:
      result: content of verification.json.
    """
    folders = result["folders"]
    paths = [tag("code", folder["path"]) for folder in folders]
    about = join(paths[0], *(join(", ", path) for path in paths[1:]))
    if result["hashes_sampled"] < 1:
        share = f"{100 * result['hashes_sampled']:.2g} %"
        about = join(about, f"; repeats are counted in a sample of {share} of the texts")
    return page("Verification of pre-training records", about, map(_folder, folders))


def _folder(folder: dict[str, Any]) -> Html:
    role = f", held out of {folder['held_out_of']}" if folder["held_out_of"] else ""
    found = folder["figures"]
    drawn = []
    if found:
        rows = [
            (name, value, tag("span", meaning, kind="soft"))
            for name, value, meaning in figure_rows(found)
        ]
        drawn = [figures(*_plots(folder)), table((), rows, ("name", "", ""))]
    sample = [_sample(folder["sample"], found["labels"])] if folder["sample"] else []
    return section(folder["path"] + role, _findings(folder), *drawn, *sample)


def _findings(folder: dict[str, Any]) -> Html:
    faults, warnings = folder["faults"], folder["warnings"]
    parts = [_list(counted(len(faults), "fault") if faults else "No faults", faults)]
    if warnings:
        parts.append(_list(counted(len(warnings), "warning"), warnings))
    if folder["not_checked"]:
        parts.append(_list("Not checked", folder["not_checked"]))
    return verdict(BAD if faults else WARNING if warnings else GOOD, *parts)


def _list(heading: str, items: Sequence[str]) -> Html:
    listed = tag("ul", *(tag("li", item) for item in items)) if items else ""
    return tag("div", tag("strong", heading), listed)


# How a predicted token is shown, see `statistics.decode_record`.
_NOTATION = "[shown→label] is a predicted piece: what the model sees, and what it has to predict"


def _drawn(sample: Sequence[Mapping[str, Any]]) -> str:
    """Returns the line about the records that are shown."""
    notation = f" {_NOTATION}." if any(record["predictions"] for record in sample) else ""
    return f"{counted(len(sample), 'record')}, drawn at random.{notation}"


def sample_lines(
    sample: Sequence[Mapping[str, Any]], labels: Sequence[str] | None, width: int
) -> list[str]:
    """Returns the lines that show records on the console.

    Args:
      sample: records of verification.json.
      labels: meanings of the labels 0 and 1; None if there are none.
      width: number of characters of a segment; the page shows the rest.
    """
    lines = [f"  {_drawn(sample)}"]
    for number, record in enumerate(sample, 1):
        lines.append(f"  {number:>2}  {_about(record, labels)}")
        texts = {"": record["a"]}
        if labels:
            texts = {"A: ": record["a"], "B: ": record["b"]}
        for name, text in texts.items():
            shown = text if len(text) <= width else text[: width - 1] + "…"
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


def _sample(sample: Sequence[Mapping[str, Any]], labels: Sequence[str] | None) -> Html:
    texts = {"a": "A", "b": "B"} if labels else {"a": "text"}
    rows = [
        (str(number), _about(record, labels), *(record[name] for name in texts))
        for number, record in enumerate(sample, 1)
    ]
    classes = ("number", "short", *("text" for _ in texts))
    return join(
        tag("p", _drawn(sample), kind="soft"),
        table(("", "record", *texts.values()), rows, classes),
    )


def _plots(folder: dict[str, Any]) -> "list[Figure]":
    """Returns plots of a folder's histograms."""
    histograms = {name: np.array(counts) for name, counts in folder["histograms"].items()}
    filled = histograms["filled"]
    plots = [_plot("filled positions", {"": filled})]
    if "predictions" in histograms:
        plots.append(_plot("predictions", {"": histograms["predictions"]}))
        # Entry i is the number of records whose position i is filled.
        reached = filled[::-1].cumsum()[::-1][1:]
        plots.append(_plot("position", {"": histograms["mask_positions"]}, reached))
    tokens = {"A": histograms["a_tokens"], "B": histograms.get("b_tokens")}
    if tokens["B"] is None:
        return [*plots, _plot("tokens of the text", {"": tokens["A"]})]
    return [*plots, _plot("tokens of a segment", tokens)]


def _plot(
    x_label: str, histograms: dict[str, np.ndarray], reached: np.ndarray | None = None
) -> "Figure":
    """Plots histograms as shares of the records: a single one filled, several as named lines.

    With many entries a bar gathers several neighbours: the sum of their shares, or with `reached`
    their mean.

    Args:
      x_label: what the entries are.
      histograms: name -> number of records by entry.
      reached: of how many records each entry is a share; None for all of them.
    """
    figure = new_figure()
    axes = figure.subplots()
    colours = zip(histograms.items(), (BLUE, AMBER), strict=False)
    for number, ((name, counts), colour) in enumerate(colours):
        width = -(-len(counts) // _MOST_BARS)
        first = np.arange(0, len(counts), width)
        totals = counts.sum() if reached is None else np.add.reduceat(reached, first)
        shares = np.add.reduceat(counts, first) / np.maximum(totals, 1)
        edges = np.append(first, first[-1] + width) - 0.5
        is_filled = len(histograms) == 1
        axes.stairs(100 * shares, edges, linewidth=1.5, fill=is_filled, color=colour)
        axes.text(0.95, 0.92 - 0.1 * number, name, color=colour, transform=axes.transAxes)
    shown = "% of the records" if reached is None else "% predicted where filled"
    axes.set(xlabel=x_label, ylabel=shown)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.margins(x=0.01)
    return figure
