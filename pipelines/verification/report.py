"""verification.json -> lines to print, and a page with plots."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beambert.console import size
from beambert.pipelines.records.contract import label_words
from beambert.pipelines.records.statistics import OPENING_TOKENS
from beambert.pipelines.verification.artefacts import BROKEN_SHARE, PHRASE_TOKENS
from beambert.report import (
    AMBER,
    BAD,
    BLUE,
    GOOD,
    WARNING,
    Card,
    Html,
    cards,
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
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Largest number of bars in a plot. With 512 lengths a bar gathers several of them.
_MOST_BARS = 64
# Number of characters of a segment on the console.
_SEGMENT_CHARACTERS = 150


def figure_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns name and value of a folder's figures, for people; unknown ones are left out.

    Args:
      figures: figures of a folder, from verification.json.
    """
    length, most = figures["max_seq_length"], figures["max_predictions_per_seq"]
    shares = [figures[f"hidden_as_{name}_share"] for name in ("mask", "other", "same")]
    first, second = figures["labels"] or label_words(None)
    rows = [
        (first, _percent(figures["is_next_share"], 2)),
        (second, _percent(figures["random_next_share"], 2)),
        (f"{second}, forced", _percent(figures["forced_random_next_share"], 2)),
        ("filled", f"{_percent(figures['filled_share'], 1)} of {length} positions"),
        ("documents in a record", _number(figures.get("documents_average"))),
        *_token_rows(figures),
        ("truncated", _count(figures["truncated_tokens"], "tokens")),
        ("masks", _UNKNOWN if most else "none; whoever trains on the records draws them"),
        (
            "predictions",
            f"{_number(figures['predictions_average'])} a record, at most {most}; "
            f"{_percent(figures['predictions_at_maximum_share'], 1)} of the records have {most}; "
            f"{_percent(figures['lost_predictions_share'], 1)} of the wanted ones do not fit",
        ),
        (
            "predicted",
            f"{_percent(figures['predictions_per_filled_position'], 2)} of filled positions, "
            f"{_percent(figures['predictions_per_text_token'], 2)} of text tokens",
        ),
        (
            "hidden",
            " / ".join(_percent(share, 2) for share in shares) + " as [MASK] / another / the same",
        ),
        ("reserved replacements", _percent(figures["reserved_replacement_share"], 2)),
        ("unknown tokens", _percent(figures["unknown_share"], 3)),
        ("ids", f"{_count(figures['lowest_id'])} to {_count(figures['highest_id'])}"),
        ("repeated records", _percent(figures["repeated_records_share"], 2)),
        ("repeated sequences", _percent(figures["repeated_sequences_share"], 2)),
        ("repeated text, at least", _percent(figures["repeated_text_share"], 2)),
        *_source_rows(figures.get("sources", {})),
        ("B of another source", _percent(figures["random_next_other_source_share"], 2)),
        ("HTML entities", _percent(figures["entities_share"], 2)),
        ("markup", _percent(figures["markup_share"], 2)),
        ("undecodable", _percent(figures["replacements_share"], 2)),
        ("broken words", _percent(figures["broken_words_share"], 2)),
        ("scripts", _scripts(figures["scripts"])),
        ("commonest phrase", _phrase(figures["commonest_phrase"])),
    ]
    if "sequences_also_in_training" in figures:
        rows += [
            ("whole, in training", _percent(figures["sequences_also_in_training"], 2)),
            ("opening, in training", _percent(figures["openings_also_in_training"], 2)),
        ]
    return [(name, value) for name, value in rows if not value.startswith(_UNKNOWN)]


def _source_rows(sources: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns a row for each source of --source."""
    rows = []
    for name, source in sources.items():
        asked = f" ({source['asked_share']:.2%} asked)" if "asked_share" in source else ""
        rows.append(
            (
                f"source {name}",
                f"{source['share']:.2%} of the tokens{asked}, {source['passes']:.2f} passes "
                f"over its text, {source['instances']:,} records",
            )
        )
    return rows


def _token_rows(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    a, b = figures["a_tokens_average"], figures["b_tokens_average"]
    if b is None:
        return [("tokens of the text", _number(a))]
    return [("tokens of A and B", _average(a, b))]


_UNKNOWN = "unknown"

# Name of a row of `figure_rows` -> its meaning, where the name does not say it.
_MEANINGS = {
    "random next, forced": "pairs from chunks of one sentence, which has no following B",
    "swapped, forced": "pairs from chunks of one sentence; their B is of another document",
    "documents in a record": "average number of documents that a record has sentences of",
    "tokens of A and B": "averages, without [CLS] and [SEP]",
    "tokens of the text": "average, without [CLS] and [SEP]",
    "truncated": "tokens cut off to fit the length",
    "hidden": "the paper's shares are 80 / 10 / 10",
    "reserved replacements": "special and unused tokens among the replacements by another token",
    "unknown tokens": "[UNK] in the text before masking",
    "repeated records": "records that equal an earlier one in tokens and masks",
    "repeated sequences": "records that equal an earlier one before masking; several passes over "
    "the corpus make some",
    "repeated text, at least": f"records whose first {OPENING_TOKENS} tokens of A occur more often "
    "than the passes over the corpus explain",
    "B of another source": "random next or swapped pairs whose B is of another --source, or "
    "pattern of --input, than A",
    "HTML entities": "records with an entity that was not decoded",
    "markup": "records with HTML tags or wiki markup",
    "undecodable": "records with characters in place of bytes that could not be decoded",
    "broken words": f"records in which more than {BROKEN_SHARE:.0%} of the tokens continue a word, "
    "as in another language than the vocabulary's",
    "scripts": "shares of the words",
    "commonest phrase": f"{PHRASE_TOKENS} tokens, and the share of the records that have them",
    "whole, in training": "held-out records that equal a training record before masking",
    "opening, in training": f"held-out records whose first {OPENING_TOKENS} tokens of A begin a "
    "training record's A",
}


def _percent(share: float | None, digits: int) -> str:
    return _UNKNOWN if share is None else f"{100 * share:.{digits}f} %"


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.2f}"


def _average(one: float | None, other: float | None) -> str:
    return f"{_number(one)} and {_number(other)}"


def _scripts(shares: Mapping[str, float] | None) -> str:
    if not shares:
        return _UNKNOWN
    return ", ".join(f"{name} {_percent(share, 2)}" for name, share in shares.items())


def _phrase(found: Mapping[str, Any] | None) -> str:
    if not found or not found["text"]:
        return _UNKNOWN
    return f"“{found['text']}”, {_percent(found['share'], 2)}"


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
    verdict = f"{plural(result['faults'], 'fault')}, {plural(result['warnings'], 'warning')}"
    return "\n".join([*lines, verdict])


def _folder_lines(folder: dict[str, Any]) -> list[str]:
    stored = sum(file["bytes"] for file in folder["files"])
    records = sum(file["instances"] for file in folder["files"])
    files = plural(len(folder["files"]), "file")
    heading = f"{folder['path']}: {plural(records, 'instance')} in {files} ({size(stored)})"
    found = folder["figures"]
    if not found:
        return [heading]
    return [heading, *(f"  {name:<25}{value}" for name, value in figure_rows(found))]


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
    drawn = [_cards(found), figures(*_plots(folder)), _table(found)] if found else []
    sample = [_sample(folder["sample"], found["labels"])] if folder["sample"] else []
    files = _files(folder["files"])
    return section(folder["path"] + role, _findings(folder), *drawn, *sample, files)


def _findings(folder: dict[str, Any]) -> Html:
    faults, warnings = folder["faults"], folder["warnings"]
    parts = [_list(plural(len(faults), "fault") if faults else "No faults", faults)]
    if warnings:
        parts.append(_list(plural(len(warnings), "warning"), warnings))
    if folder["not_checked"]:
        parts.append(_list("Not checked", folder["not_checked"]))
    return verdict(BAD if faults else WARNING if warnings else GOOD, *parts)


def plural(count: int, noun: str) -> str:
    """Returns a number and a noun: "1 fault", "2 faults"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _list(heading: str, items: Sequence[str]) -> Html:
    listed = tag("ul", *(tag("li", item) for item in items)) if items else ""
    return tag("div", tag("strong", heading), listed)


def _cards(figures: dict[str, Any]) -> Html:
    of_masks = ()
    if most := figures["max_predictions_per_seq"]:
        of_masks = (
            Card(_number(figures["predictions_average"]), f"predictions, at most {most}"),
            Card(_percent(figures["hidden_as_mask_share"], 1), "of them [MASK]"),
        )
    return cards(
        (
            Card(f"{figures['instances']:,}", "instances"),
            _pairs_card(figures),
            Card(_percent(figures["filled_share"], 1), f"of {figures['max_seq_length']} filled"),
            *of_masks,
            Card(_percent(figures["unknown_share"], 3), "unknown tokens"),
        )
    )


def _pairs_card(figures: Mapping[str, Any]) -> Card:
    if (share := figures["is_next_share"]) is not None:
        return Card(_percent(share, 2), figures["labels"][0])
    return Card(_number(figures.get("documents_average")), "documents in a record")


def _table(figures: dict[str, Any]) -> Html:
    rows = [
        (name, value, tag("span", _MEANINGS.get(name, ""), kind="soft"))
        for name, value in figure_rows(figures)
    ]
    return table((), rows, ("name", "", ""))


# How a predicted token is shown, see `samples.decode_record`.
_NOTATION = "[shown→label] is a predicted piece: what the model sees, and what it has to predict"


def _drawn(sample: Sequence[Mapping[str, Any]]) -> str:
    """Returns the sentences about the records that are shown."""
    notation = f" {_NOTATION}." if any(record["predictions"] for record in sample) else ""
    return f"{plural(len(sample), 'record')}, drawn at random.{notation}"


def sample_lines(
    sample: Sequence[Mapping[str, Any]], labels: Sequence[str] | None, width: int
) -> list[str]:
    """Returns the lines that show records on the console.

    Args:
      sample: records of verification.json.
      labels: what the labels 0 and 1 say; None if there are none.
      width: number of characters of a segment; the rest is left to the page.
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
    predictions = f", {plural(made, 'prediction')}" if (made := record["predictions"]) else ""
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


def _files(files: Sequence[dict[str, Any]]) -> Html:
    rows = [
        (
            file["path"].rpartition("/")[2],
            f"{file['instances']:,}",
            f"{file['bytes']:,}",
            tag("code", file["sha256"]),
        )
        for file in files
    ]
    listed = table(("file", "instances", "bytes", "SHA-256"), rows, ("", "number", "number", ""))
    return tag("details", tag("summary", plural(len(files), "file")), listed)


def _plots(folder: dict[str, Any]) -> "list[Figure]":
    """Returns plots of a folder's histograms."""
    histograms = {name: np.array(counts) for name, counts in folder["histograms"].items()}
    if "b_tokens" in histograms:
        tokens = {"A": histograms["a_tokens"], "B": histograms["b_tokens"]}
        of_text = _share_plot("tokens of a segment", tokens)
    else:
        of_text = _share_plot("tokens of the text", {"": histograms["a_tokens"]})
    of_masks = []
    if "predictions" in histograms:
        predictions = _share_plot("predictions", {"": histograms["predictions"]})
        of_masks = [predictions, _mask_plot(histograms)]
    return [_share_plot("filled positions", {"": histograms["filled"]}), *of_masks, of_text]


def _share_plot(x_label: str, histograms: dict[str, np.ndarray]) -> "Figure":
    """Plots histograms as shares of the records: a single one filled, several as named lines."""
    figure = new_figure()
    axes = figure.subplots()
    colours = zip(histograms.items(), (BLUE, AMBER), strict=False)
    for number, ((name, counts), colour) in enumerate(colours):
        totals = np.full(len(counts), counts.sum())
        _stairs(axes, counts, totals, fill=len(histograms) == 1, color=colour)
        axes.text(0.95, 0.92 - 0.1 * number, name, color=colour, transform=axes.transAxes)
    axes.set(xlabel=x_label, ylabel="% of the records")
    return figure


def _mask_plot(histograms: dict[str, np.ndarray]) -> "Figure":
    """Plots how often each position is predicted in the records that fill it."""
    figure = new_figure()
    axes = figure.subplots()
    # Entry i is the number of records whose position i is filled.
    reached = histograms["filled"][::-1].cumsum()[::-1][1:]
    _stairs(axes, histograms["mask_positions"], reached, fill=True, color=BLUE, together=False)
    axes.set(xlabel="position", ylabel="% predicted where filled")
    return figure


def _stairs(
    axes: "Axes", counts: np.ndarray, totals: np.ndarray, *, together: bool = True, **style: Any
) -> None:
    """Draws counts as shares of `totals`.

    A bar gathers several neighbours: with `together` it shows the sum of their shares, else their
    mean.
    """
    width = -(-len(counts) // _MOST_BARS)
    first = np.arange(0, len(counts), width)
    shares = np.add.reduceat(counts, first) / np.maximum(np.add.reduceat(totals, first), 1)
    bars = np.diff(np.append(first, len(counts)))
    edges = np.append(first, first[-1] + width) - 0.5
    axes.stairs(100 * shares * (bars if together else 1), edges, linewidth=1.5, **style)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.margins(x=0.01)
