"""Shows what the demonstration made: a self-contained HTML page and a table for the terminal."""

import dataclasses
import html
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from beambert.pipelines.shared.console import duration
from beambert.pipelines.storage.claims import BLESSED, NOT_BLESSED

TEXT_WIDTH = 100
# Legible on both the light and the dark background of the page.
FIRST_COLOUR, SECOND_COLOUR, QUIET_COLOUR = "#2f81d8", "#e0712b", "#8a8f98"

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2127; --quiet: #5d6570; --line: #dfe3e8;
  --page: #ffffff; --card: #f5f7f9; --good: #1a7f37; --bad: #c02d2d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --quiet: #9aa3af; --line: #343a42;
  --page: #15181c; --card: #1e2329; --good: #4cc26a; --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { margin: 0; font-size: 1.7rem; } h2 { margin: 2.5rem 0 .6rem; font-size: 1.2rem; }
p { margin: .4rem 0; } .quiet { color: var(--quiet); }
.cards { display: grid; gap: .8rem; margin-top: 1.4rem;
  grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); }
.card { background: var(--card); border-radius: .6rem; padding: .8rem 1rem; }
.card b { display: block; font-size: 1.6rem; line-height: 1.3; }
.figures { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); }
figure { margin: 0; } figcaption { color: var(--quiet); font-size: .9rem; }
svg { width: 100%; height: auto; color: var(--ink); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { padding: .4rem .7rem .4rem 0; border-bottom: 1px solid var(--line); text-align: left; }
td { vertical-align: top; }
th { color: var(--quiet); font-weight: 600; } .number { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.blessed { color: var(--good); } .refused { color: var(--bad); }
meter { width: 10rem; max-width: 40vw; }
"""


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of the demonstration.

    Attributes:
      name: a word or two.
      command: the command line that repeats it.
      seconds: time it took.
      output: what it wrote.
      result: what came of it, in one line.
    """

    name: str
    command: str
    seconds: float
    output: str
    result: str


@dataclasses.dataclass(frozen=True)
class DemoSummary:
    """All that the report shows. Shares and accuracies are between 0 and 1.

    Attributes:
      steps: what was made where, in order.
      machine: facts about the machine, such as {"cores": "2", "Python": "3.11.7"}.
      corpus: facts about the corpus, by name.
      vocabulary_size: entries of the vocabulary.
      lengths: tokens of the short and of the long sequences of the pre-training.
      last_short_step: of the pre-training.
      instances: of the short sequences.
      is_next_share: share of those instances whose second segment follows the first.
      fill: share of those instances' positions that hold a token.
      pretraining: lines of the pre-training's metrics.jsonl.
      commonest_token_accuracy: of the long sequences' masked tokens, of always guessing the
        commonest.
      seconds_per_step: of the pre-training on short sequences.
      finetuning_pretrained: lines of metrics.jsonl, starting from the pre-trained encoder.
      finetuning_random: lines of metrics.jsonl, starting from random weights.
      pretrained_accuracy: held-out task accuracy, starting from the pre-trained encoder.
      random_accuracy: held-out task accuracy, starting from random weights.
      majority_accuracy: held-out task accuracy of always guessing the commonest class.
      verdict: BLESSED or NOT_BLESSED.
      slices: (slice, examples, accuracy) of the evaluation, overall first.
      sentence: what the exported model was asked.
      answer: (label, probability), likeliest first.
      seconds: time of the whole.
    """

    steps: Sequence[Step]
    machine: Mapping[str, str]
    corpus: Mapping[str, str]
    vocabulary_size: int
    lengths: tuple[int, int]
    last_short_step: int
    instances: int
    is_next_share: float
    fill: float
    pretraining: Sequence[Mapping[str, object]]
    commonest_token_accuracy: float
    seconds_per_step: float
    finetuning_pretrained: Sequence[Mapping[str, object]]
    finetuning_random: Sequence[Mapping[str, object]]
    pretrained_accuracy: float
    random_accuracy: float
    majority_accuracy: float
    verdict: str
    slices: Sequence[tuple[str, int, float]]
    sentence: str
    answer: Sequence[tuple[str, float]]
    seconds: float


def read_metrics(path: Path) -> list[dict[str, object]]:
    """Reads a metrics.jsonl file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def curve(lines: Iterable[Mapping[str, object]], split: str, name: str) -> tuple[list, list]:
    """Returns the steps and the values of one metric over one split."""
    points = [
        (line["step"], line[name]) for line in lines if line["split"] == split and name in line
    ]
    return [step for step, _ in points], [value for _, value in points]


def last_evaluation(lines: Iterable[Mapping[str, object]]) -> Mapping[str, object]:
    """Returns the last line of the eval split, or an empty mapping."""
    return next((line for line in reversed(list(lines)) if line["split"] == "eval"), {})


def percent(share: object) -> str:
    """Formats a share, or a dash where it is missing."""
    return f"{100 * share:.1f} %" if isinstance(share, int | float) else "–"


def decimal(value: object) -> str:
    """Formats a loss, or a dash where it is missing."""
    return f"{value:.3f}" if isinstance(value, int | float) else "–"


def key_results(summary: DemoSummary) -> list[tuple[str, str, str]]:
    """Returns (measure, value, what to compare it with) for the results that matter most."""
    final = last_evaluation(summary.pretraining)
    of_long = f"of {summary.lengths[1]} tokens"
    return [
        (
            f"held-out masked-token accuracy, {of_long}",
            percent(final.get("masked_lm_accuracy")),
            f"always the commonest token: {percent(summary.commonest_token_accuracy)}",
        ),
        (
            f"held-out next-sentence accuracy, {of_long}",
            percent(final.get("next_sentence_accuracy")),
            f"always the same answer: about {percent(0.5)}",
        ),
        (
            "task accuracy, pre-trained",
            percent(summary.pretrained_accuracy),
            f"from random weights: {percent(summary.random_accuracy)}; "
            f"always one class: {percent(summary.majority_accuracy)}",
        ),
        (
            "evaluation",
            summary.verdict,
            f"held-out loss of pre-training: {decimal(final.get('loss'))}",
        ),
    ]


def facts(summary: DemoSummary) -> list[tuple[str, str]]:
    """Returns (name, value) of the machine, the corpus, the records and the speed."""
    of_short = f"of {summary.lengths[0]} tokens"
    return [
        *summary.machine.items(),
        *((f"corpus: {name}", value) for name, value in summary.corpus.items()),
        ("vocabulary", f"{summary.vocabulary_size:,} entries"),
        (f"pre-training instances {of_short}", f"{summary.instances:,}"),
        ("their IsNext share", percent(summary.is_next_share)),
        ("their positions filled", percent(summary.fill)),
        (f"pre-training step {of_short}", f"{summary.seconds_per_step:.3f} s"),
        ("total time", duration(summary.seconds)),
    ]


def draw(
    title: str,
    curves: Iterable[tuple[str, str, tuple[list, list]]],
    level: tuple[str, float] | None,
    change: tuple[str, int] | None = None,
) -> str:
    """Draws one figure as an SVG element.

    Args:
      title: what the vertical axis shows.
      curves: (label, colour, (steps, values)); empty ones are left out.
      level: (label, value) of a horizontal line to compare with.
      change: (label, step) of a vertical line where something else begins.
    """
    import matplotlib  # Half a second to import, and the terminal's table needs none of it.
    from matplotlib.figure import Figure

    # A fixed salt for the ids makes the same summary give the same page.
    style = {"svg.fonttype": "none", "svg.hashsalt": title, "font.size": 10}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(4.6, 2.9), layout="constrained")
        axes = figure.subplots()
        for label, colour, (steps, values) in curves:
            if steps:
                marker = "o" if len(steps) < 12 else None
                axes.plot(steps, values, color=colour, label=label, marker=marker, markersize=4)
        if level:
            axes.axhline(level[1], color=QUIET_COLOUR, linestyle="--", label=level[0])
        if change:
            axes.axvline(change[1], color=QUIET_COLOUR, linestyle=":", label=change[0])
        axes.set_xlabel("step")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=QUIET_COLOUR, alpha=0.25)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(frameon=False)
        text = io.StringIO()
        metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(text, format="svg", transparent=True, metadata=metadata)
    svg = text.getvalue()
    # Black is the default, which currentColor replaces to be legible on a dark page too.
    svg = svg[svg.index("<svg") :].replace("#000000", "currentColor")
    svg = svg.replace("<svg ", '<svg fill="currentColor" ', 1)
    return f"<figure><figcaption>{html.escape(title)}</figcaption>{svg}</figure>"


def pretraining_figures(summary: DemoSummary) -> str:
    """Draws loss and the two accuracies of the pre-training."""
    baseline = ("commonest token", summary.commonest_token_accuracy)
    change = (f"{summary.lengths[0]} → {summary.lengths[1]} tokens", summary.last_short_step)
    figures = []
    for title, name, level in (
        ("Loss", "loss", None),
        ("Masked-token accuracy", "masked_lm_accuracy", baseline),
        ("Next-sentence accuracy", "next_sentence_accuracy", ("chance", 0.5)),
    ):
        curves = [
            ("training", FIRST_COLOUR, curve(summary.pretraining, "train", name)),
            ("held-out", SECOND_COLOUR, curve(summary.pretraining, "eval", name)),
        ]
        figures.append(draw(title, curves, level, change))
    return "".join(figures)


def finetuning_figures(summary: DemoSummary) -> str:
    """Draws training loss and held-out accuracy of the two fine-tuning runs."""
    runs = (
        ("pre-trained", FIRST_COLOUR, summary.finetuning_pretrained),
        ("random weights", SECOND_COLOUR, summary.finetuning_random),
    )
    losses = [(label, colour, curve(lines, "train", "loss")) for label, colour, lines in runs]
    accuracies = [
        (label, colour, curve(lines, "eval", "accuracy")) for label, colour, lines in runs
    ]
    level = ("always one class", summary.majority_accuracy)
    return draw("Training loss of the task", losses, None) + draw(
        "Held-out accuracy of the task", accuracies, level
    )


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int]) -> str:
    """Makes a table of escaped cells; the columns in `numbers` are aligned to the right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = [' class="number"' if index in numbers else "" for index in range(len(row))]
        inside = zip(kinds, row, strict=True)
        return "".join(f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for kind, cell in inside)

    head = f"<thead><tr>{cells('th', header)}</tr></thead>" if header else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def render_html(summary: DemoSummary) -> str:
    """Returns the page, which loads nothing from anywhere."""
    cards = "".join(
        f'<div class="card"><span class="quiet">{html.escape(name.capitalize())}</span>'
        f"<b{_verdict_class(value)}>{html.escape(value)}</b>"
        f'<span class="quiet">{html.escape(beside)}</span></div>'
        for name, value, beside in key_results(summary)
    )
    steps = [(s.name, duration(s.seconds), s.result, s.output, s.command) for s in summary.steps]
    slices = [(name, f"{count:,}", percent(share)) for name, count, share in summary.slices]
    answer = "".join(
        f"<tr><td>{html.escape(label)}</td><td><meter value={probability:.4f}></meter></td>"
        f'<td class="number">{percent(probability)}</td></tr>'
        for label, probability in summary.answer
    )
    sections = (
        ("Pre-training", f'<div class="figures">{pretraining_figures(summary)}</div>'),
        ("Fine-tuning", f'<div class="figures">{finetuning_figures(summary)}</div>'),
        ("Evaluation by slice", html_table(("slice", "examples", "accuracy"), slices, (1, 2))),
        (
            "The exported model's answer",
            f"<p>“{html.escape(summary.sentence)}”</p><table>{answer}</table>",
        ),
        (
            "What was made where",
            html_table(("step", "time", "result", "output", "command"), steps, (1,)),
        ),
        ("Facts", html_table((), facts(summary), ())),
    )
    body = "".join(f"<section><h2>{title}</h2>{content}</section>" for title, content in sections)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>BeamBERT demonstration</title><style>{_STYLE}</style></head><body>"
        "<h1>BeamBERT demonstration</h1>"
        '<p class="quiet">From text to an evaluated encoder on this machine in '
        f"{duration(summary.seconds)}</p>"
        f'<div class="cards">{cards}</div>{body}</body></html>\n'
    )


def _verdict_class(value: str) -> str:
    return {BLESSED: ' class="blessed"', NOT_BLESSED: ' class="refused"'}.get(value, "")


def text_table(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Aligns columns; lines too long are cut with an ellipsis."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = (map(str.ljust, row, widths) for row in rows)
    lines = [(indent + "  ".join(cells)).rstrip() for cells in padded]
    return [s if len(s) <= TEXT_WIDTH else s[: TEXT_WIDTH - 1] + "…" for s in lines]


def render_text(summary: DemoSummary) -> str:
    """Returns the summary for a terminal, at most TEXT_WIDTH columns wide."""
    slices = [(name, f"{count:,}", percent(share)) for name, count, share in summary.slices]
    answer = [(label, percent(probability)) for label, probability in summary.answer]
    sections = (
        ("Results", key_results(summary)),
        ("Made", [(step.name, duration(step.seconds), step.output) for step in summary.steps]),
        ("Came of it", [(step.name, step.result) for step in summary.steps]),
        ("Evaluation by slice", slices),
        (f"Answer to “{summary.sentence}”", answer),
        ("Facts", facts(summary)),
    )
    lines = []
    for title, rows in sections:
        lines += ["", *text_table([(" ".join(title.split()),)], indent=""), *text_table(rows)]
    return "\n".join(lines[1:]) + "\n"
