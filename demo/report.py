"""The report of the demonstration: a self-contained HTML page, and tables for the terminal."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from beambert.console import duration
from beambert.pipelines.storage.claims import BLESSED, NOT_BLESSED
from beambert.report import (
    AMBER,
    BAD,
    BLUE,
    GOOD,
    GREY,
    Card,
    Html,
    bar,
    cards,
    figures,
    new_figure,
    page,
    section,
    table,
    tag,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXT_WIDTH = 100
# The text and the state of each verdict on the page.
VERDICTS = {BLESSED: ("Blessed", GOOD), NOT_BLESSED: ("Not blessed", BAD)}


@dataclasses.dataclass(frozen=True)
class ShownStep:
    """One step of the demonstration.

    Attributes:
      name: name of the step.
      command: command line of the step.
      seconds: time that the step took.
      output: path of the step's output.
      result: one line about the result.
    """

    name: str
    command: str
    seconds: float
    output: str
    result: str


@dataclasses.dataclass(frozen=True)
class DemoSummary:
    """The content of the report. Shares and accuracies are between 0 and 1.

    Attributes:
      steps: steps in their order.
      machine: facts about the machine, such as {"cores": "2", "Python": "3.11.7"}.
      corpus: facts about the corpus, by name.
      vocabulary_size: number of tokens in the vocabulary.
      lengths: lengths in tokens of the short and the long sequences of the pre-training.
      last_short_step: last pre-training step on short sequences.
      instances: number of pre-training instances of the short length.
      is_next_share: share of those instances whose second segment follows the first.
      fill: share of the positions in those instances that hold a token.
      pretraining: lines of the pre-training's metrics.jsonl.
      commonest_token_accuracy: masked-token accuracy on long sequences of always predicting the
        most common token.
      seconds_per_step: median time of a pre-training step on short sequences.
      finetuning_pretrained: lines of metrics.jsonl, starting from the pre-trained encoder.
      finetuning_random: lines of metrics.jsonl, starting from random weights.
      pretrained_accuracy: held-out task accuracy, starting from the pre-trained encoder.
      random_accuracy: held-out task accuracy, starting from random weights.
      majority_accuracy: held-out task accuracy of always predicting the most common class.
      verdict: BLESSED or NOT_BLESSED.
      slices: (slice, examples, accuracy) of the evaluation, overall first.
      sentence: input of the exported model.
      answer: (label, probability) pairs from the exported model, most probable first.
      seconds: total time of the steps.
    """

    steps: Sequence[ShownStep]
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
    """Returns a share in per cent, or a dash if it is missing."""
    return f"{100 * share:.1f} %" if isinstance(share, int | float) else "–"


def decimal(value: object) -> str:
    """Returns a loss with three decimals, or a dash if it is missing."""
    return f"{value:.3f}" if isinstance(value, int | float) else "–"


def key_results(summary: DemoSummary) -> list[tuple[str, str, str]]:
    """Returns (measure, value, value to compare with) for the main results."""
    final = last_evaluation(summary.pretraining)
    of_long = f"of {summary.lengths[1]} tokens"
    return [
        (
            f"held-out masked-token accuracy, {of_long}",
            percent(final.get("masked_lm_accuracy")),
            f"always the most common token: {percent(summary.commonest_token_accuracy)}",
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
    """Returns (name, value) pairs on the machine, the corpus, the records and the speed."""
    of_short = f"of {summary.lengths[0]} tokens"
    return [
        *summary.machine.items(),
        *((f"corpus: {name}", value) for name, value in summary.corpus.items()),
        ("vocabulary", f"{summary.vocabulary_size:,} entries"),
        (f"pre-training instances {of_short}", f"{summary.instances:,}"),
        ("share of IsNext in them", percent(summary.is_next_share)),
        ("share of positions with a token", percent(summary.fill)),
        (f"pre-training step {of_short}", f"{summary.seconds_per_step:.3f} s"),
        ("total time", duration(summary.seconds)),
    ]


def draw(
    title: str,
    curves: Iterable[tuple[str, str, tuple[list, list]]],
    level: tuple[str, float] | None,
    change: tuple[str, int] | None = None,
) -> "Figure":
    """Returns a plot over the training steps.

    Args:
      title: label of the vertical axis.
      curves: (label, colour, (steps, values)) of each curve; empty curves are left out.
      level: (label, value) of a horizontal line to compare with.
      change: (label, step) of a vertical line at a change in the training.
    """
    figure = new_figure()
    axes = figure.subplots()
    for label, colour, (steps, values) in curves:
        if steps:
            marker = "o" if len(steps) < 12 else None
            axes.plot(steps, values, color=colour, label=label, marker=marker, markersize=4)
    if level:
        axes.axhline(level[1], color=GREY, linestyle="--", label=level[0])
    if change:
        axes.axvline(change[1], color=GREY, linestyle=":", label=change[0])
    axes.set(xlabel="step", ylabel=title)
    axes.grid(color=GREY, alpha=0.25)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False)
    return figure


def pretraining_figures(summary: DemoSummary) -> "list[Figure]":
    """Returns plots of the loss and the two accuracies of the pre-training."""
    baseline = ("most common token", summary.commonest_token_accuracy)
    change = (f"{summary.lengths[0]} → {summary.lengths[1]} tokens", summary.last_short_step)
    drawn = []
    for title, name, level in (
        ("loss", "loss", None),
        ("masked-token accuracy", "masked_lm_accuracy", baseline),
        ("next-sentence accuracy", "next_sentence_accuracy", ("chance", 0.5)),
    ):
        curves = [
            ("training", BLUE, curve(summary.pretraining, "train", name)),
            ("held-out", AMBER, curve(summary.pretraining, "eval", name)),
        ]
        drawn.append(draw(title, curves, level, change))
    return drawn


def finetuning_figures(summary: DemoSummary) -> "list[Figure]":
    """Returns plots of the training loss and held-out accuracy of the two fine-tuning runs."""
    runs = (
        ("pre-trained", BLUE, summary.finetuning_pretrained),
        ("random weights", AMBER, summary.finetuning_random),
    )
    losses = [(label, colour, curve(lines, "train", "loss")) for label, colour, lines in runs]
    accuracies = [
        (label, colour, curve(lines, "eval", "accuracy")) for label, colour, lines in runs
    ]
    return [
        draw("training loss of the task", losses, None),
        draw(
            "held-out accuracy of the task",
            accuracies,
            ("always one class", summary.majority_accuracy),
        ),
    ]


def render_html(summary: DemoSummary) -> str:
    """Returns the HTML page, which loads no other files."""
    results = []
    for name, value, beside in key_results(summary):
        value, state = VERDICTS.get(value, (value, ""))
        results.append(Card(value, name, beside, state))
    slices = [(name, f"{count:,}", percent(share)) for name, count, share in summary.slices]
    answer = [(label, bar(share), percent(share)) for label, share in summary.answer]
    sections = [
        cards(results),
        section("Pre-training", figures(*pretraining_figures(summary))),
        section("Fine-tuning", figures(*finetuning_figures(summary))),
        section(
            "Evaluation by slice",
            table(("slice", "examples", "accuracy"), slices, ("name", "number", "number")),
        ),
        section(
            "The exported model's answer",
            tag("p", f"“{summary.sentence}”"),
            table((), answer, ("name", "bar", "number")),
        ),
        section("Steps", _steps(summary.steps)),
        section("Facts", table((), facts(summary), ("name", ""))),
    ]
    about = f"From text to an evaluated encoder on this machine in {duration(summary.seconds)}"
    return page("BeamBERT demonstration", about, sections)


def _steps(steps: Sequence[ShownStep]) -> Html:
    rows = [
        (step.name, duration(step.seconds), step.result, step.output, tag("code", step.command))
        for step in steps
    ]
    header = ("step", "time", "result", "output", "command")
    return table(header, rows, ("name", "number", "short", "short", "text"))


def text_table(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Returns the lines of a table with aligned columns; long lines end in an ellipsis."""
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
        ("Steps", [(step.name, duration(step.seconds), step.output) for step in summary.steps]),
        ("Results of the steps", [(step.name, step.result) for step in summary.steps]),
        ("Evaluation by slice", slices),
        (f"Answer to “{summary.sentence}”", answer),
        ("Facts", facts(summary)),
    )
    lines = []
    for title, rows in sections:
        lines += ["", *text_table([(" ".join(title.split()),)], indent=""), *text_table(rows)]
    return "\n".join(lines[1:]) + "\n"
