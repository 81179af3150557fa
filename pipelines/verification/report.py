"""What verification.json holds, as lines to print and as a page with plots."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beambert.pipelines.records.repeats import OPENING_TOKENS
from beambert.pipelines.shared.report_page import AMBER, BLUE, cards, page, svg, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Bars of a plot: of 512 lengths, each gathers several.
_MOST_BARS = 64
_STYLE = """<style>
.findings { margin: 1rem 0; padding: .8rem 1rem; border-left: .4rem solid var(--good);
  background: var(--card); border-radius: .3rem; }
.findings.warned { border-color: #d9822b; } .findings.faulty { border-color: var(--bad); }
.findings ul { margin: .4rem 0 0; padding-left: 1.2rem; } .findings li { margin: .3rem 0;
  overflow-wrap: anywhere; }
.cards { margin: .8rem 0; } h2 { overflow-wrap: anywhere; }
details { margin: .8rem 0; } summary { cursor: pointer; color: var(--soft); }
td code { font-size: .75rem; overflow-wrap: anywhere; }
@media (min-width: 40rem) { td.name { white-space: nowrap; } }
</style>"""


def figure_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns name and value of what is known of a folder's records, for people.

    Args:
      figures: of a folder in verification.json.
    """
    length, most = figures["max_seq_length"], figures["max_predictions_per_seq"]
    shares = [figures[f"hidden_as_{name}_share"] for name in ("mask", "other", "same")]
    rows = [
        ("is next", _percent(figures["is_next_share"], 2)),
        ("random next", _percent(figures["random_next_share"], 2)),
        ("random next, forced", _percent(figures["forced_random_next_share"], 2)),
        ("filled", f"{_percent(figures['filled_share'], 1)} of {length} positions"),
        ("tokens of A and B", _average(figures["a_tokens_average"], figures["b_tokens_average"])),
        ("truncated", _count(figures["truncated_tokens"], "tokens")),
        (
            "predictions",
            f"{_number(figures['predictions_average'])} a record, at most {most}; "
            f"{_percent(figures['predictions_at_maximum_share'], 1)} of the records have all; "
            f"{_percent(figures['lost_predictions_share'], 1)} of those wanted don't fit",
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
    ]
    if "sequences_also_in_training" in figures:
        rows += [
            ("whole, in training", _percent(figures["sequences_also_in_training"], 2)),
            ("opening, in training", _percent(figures["openings_also_in_training"], 2)),
        ]
    return [(name, value) for name, value in rows if not value.startswith(_UNKNOWN)]


_UNKNOWN = "unknown"

# What the rows of `figure_rows` mean, where that isn't plain.
_MEANINGS = {
    "random next, forced": "chunks of one sentence, which can have no B of their own",
    "tokens of A and B": "on average, without [CLS] and [SEP]",
    "truncated": "cut off to fit the length",
    "hidden": "the paper's shares are 80 / 10 / 10",
    "reserved replacements": "special and unused tokens among the other tokens taken",
    "unknown tokens": "[UNK] in the text, masked ones restored",
    "repeated records": "equal an earlier one in tokens and masks",
    "repeated sequences": "equal an earlier one before masking; passes over the corpus make some",
    "repeated text, at least": f"the first {OPENING_TOKENS} tokens of A occur more often than the "
    "passes over the corpus explain",
    "whole, in training": "held-out records whose tokens all stand in one training record",
    "opening, in training": f"whose first {OPENING_TOKENS} tokens of A begin a training record's A",
}


def _percent(share: float | None, digits: int) -> str:
    return _UNKNOWN if share is None else f"{100 * share:.{digits}f} %"


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.2f}"


def _average(one: float | None, other: float | None) -> str:
    return f"{_number(one)} and {_number(other)}"


def _count(value: int | None, unit: str = "") -> str:
    return _UNKNOWN if value is None else f"{value:,} {unit}".rstrip()


def render(result: dict[str, Any]) -> str:
    """Returns the HTML page.

    Args:
      result: what verification.json holds.
    """
    folders = result["folders"]
    about = ", ".join(f"<code>{text(folder['path'])}</code>" for folder in folders)
    if result["hashes_sampled"] < 1:
        about += f"; repeats counted in a sample of {100 * result['hashes_sampled']:.2g} %"
    sections = [_STYLE]
    for folder in folders:
        sections += [_heading(folder), _findings(folder)]
        if folder["figures"]:
            plots = f"<figure>{svg(_plots(folder))}</figure>"
            sections += [_cards(folder["figures"]), plots, _table(folder["figures"])]
        sections.append(_files(folder["files"]))
    return page("Verification of pre-training records", about, sections)


def _heading(folder: dict[str, Any]) -> str:
    role = f", held out of {folder['held_out_of']}" if folder["held_out_of"] else ""
    return f"<h2>{text(folder['path'])}{text(role)}</h2>"


def _findings(folder: dict[str, Any]) -> str:
    faults, warnings = folder["faults"], folder["warnings"]
    style = "faulty" if faults else "warned" if warnings else ""
    parts = [
        _list(plural(len(faults), "fault"), faults) if faults else "<strong>No faults</strong>",
        _list(plural(len(warnings), "warning"), warnings) if warnings else "",
        _list("Not checked", folder["not_checked"]) if folder["not_checked"] else "",
    ]
    inner = "".join(f"<div>{part}</div>" for part in parts if part)
    return f'<div class="findings {style}">{inner}</div>'


def plural(count: int, noun: str) -> str:
    """Returns a number of things: 1 fault, 2 faults."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _list(heading: str, items: Sequence[str]) -> str:
    inner = "".join(f"<li>{text(item)}</li>" for item in items)
    return f"<strong>{text(heading)}</strong><ul>{inner}</ul>"


def _cards(figures: dict[str, Any]) -> str:
    return cards(
        (
            (f"{figures['instances']:,}", "instances"),
            (_percent(figures["is_next_share"], 2), "is next"),
            (_percent(figures["filled_share"], 1), f"of {figures['max_seq_length']} filled"),
            (
                _number(figures["predictions_average"]),
                f"predictions, at most {figures['max_predictions_per_seq']}",
            ),
            (_percent(figures["hidden_as_mask_share"], 1), "of them [MASK]"),
            (_percent(figures["unknown_share"], 3), "unknown tokens"),
        )
    )


def _table(figures: dict[str, Any]) -> str:
    rows = "".join(
        f'<tr><td class="name">{text(name)}</td><td>{text(value)}</td><td class="soft">'
        f"{text(_MEANINGS.get(name, ''))}</td></tr>"
        for name, value in figure_rows(figures)
    )
    return f'<div class="wide"><table>{rows}</table></div>'


def _files(files: Sequence[dict[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td>{text(file['path'].rpartition('/')[2])}</td>"
        f'<td class="number">{file["instances"]:,}</td>'
        f'<td class="number">{file["bytes"]:,}</td><td><code>{file["sha256"]}</code></td></tr>'
        for file in files
    )
    return (
        f"<details><summary>{plural(len(files), 'file')}</summary>"
        '<div class="wide"><table><tr><th>file</th><th class="number">instances</th>'
        f'<th class="number">bytes</th><th>SHA-256</th></tr>{rows}</table></div></details>'
    )


def _plots(folder: dict[str, Any]) -> "Figure":
    """Draws the histograms of a folder."""
    from matplotlib.figure import Figure

    histograms = {name: np.array(counts) for name, counts in folder["histograms"].items()}
    figure = Figure(figsize=(9.2, 5.6), layout="constrained")
    (filled, predictions), (masks, segments) = figure.subplots(2, 2)
    for axes, name, x_label in (
        (filled, "filled", "filled positions"),
        (predictions, "predictions", "predictions"),
        (segments, "a_tokens", "tokens of a segment"),
        (segments, "b_tokens", "tokens of a segment"),
    ):
        counts = histograms[name]
        of = np.full(len(counts), counts.sum())
        style = {"fill": axes is not segments, "color": AMBER if name == "b_tokens" else BLUE}
        _stairs(axes, counts, of, **style)
        axes.set(xlabel=x_label, ylabel="% of the records")
    for height, name, colour in ((0.92, "A", BLUE), (0.82, "B", AMBER)):
        segments.text(0.95, height, name, color=colour, transform=segments.transAxes)
    # Records of which position i is filled.
    reached = histograms["filled"][::-1].cumsum()[::-1][1:]
    _stairs(masks, histograms["mask_positions"], reached, fill=True, color=BLUE, together=False)
    masks.set(xlabel="position", ylabel="% predicted where filled")
    return figure


def _stairs(
    axes: "Axes", counts: np.ndarray, of: np.ndarray, *, together: bool = True, **style: Any
) -> None:
    """Draws counts as shares of `of`; neighbours gather in a bar, `together` as a sum."""
    width = -(-len(counts) // _MOST_BARS)
    first = np.arange(0, len(counts), width)
    shares = np.add.reduceat(counts, first) / np.maximum(np.add.reduceat(of, first), 1)
    bars = np.diff(np.append(first, len(counts)))
    edges = np.append(first, first[-1] + width) - 0.5
    axes.stairs(100 * shares * (bars if together else 1), edges, linewidth=1.5, **style)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    axes.spines[["top", "right"]].set_visible(False)
