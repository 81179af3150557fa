"""The report of the demonstration: a self-contained HTML page, and tables for the terminal."""

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beambert.console import duration
from beambert.demo.corpus import FINISHED_FILE
from beambert.demo.run import LONG_LENGTH, SENTENCE, SHORT_LENGTH, Done, read_json
from beambert.folders import BLESSED, METRICS_FILE, NOT_BLESSED
from beambert.model_files import CURVES_FILE, RESULTS_FILE, TRAINING_FILE
from beambert.pipelines.records.contract import INFO_FILE
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
      lengths: lengths in tokens of the short and the long sequences of the pre-training.
      last_short_step: last pre-training step on short sequences.
      pretraining: lines of the pre-training's metrics.jsonl.
      commonest_token_accuracy: masked-token accuracy on long sequences of always predicting the
        most common token.
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
    lengths: tuple[int, int]
    last_short_step: int
    pretraining: Sequence[Mapping[str, object]]
    commonest_token_accuracy: float
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
    for name, value, comparison in key_results(summary):
        value, state = VERDICTS.get(value, (value, ""))
        results.append(Card(value, name, comparison, state))
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
    sections = (
        ("Results", key_results(summary)),
        ("Steps", [(step.name, duration(step.seconds), step.output) for step in summary.steps]),
        ("Results of the steps", [(step.name, step.result) for step in summary.steps]),
        ("Evaluation by slice", slices),
    )
    lines = []
    for title, rows in sections:
        lines += ["", *text_table([(" ".join(title.split()),)], indent=""), *text_table(rows)]
    return "\n".join(lines[1:]) + "\n"


def gather(folder: Path, done: Sequence[Done]) -> DemoSummary:
    """Returns the summary of the finished steps."""
    corpus = read_json(folder / "corpus" / FINISHED_FILE)
    records, long_records = (
        read_json(folder / "records" / str(length) / INFO_FILE)
        for length in (SHORT_LENGTH, LONG_LENGTH)
    )
    pretraining = read_json(folder / "encoder" / RESULTS_FILE)
    phases = read_json(folder / "encoder" / TRAINING_FILE)["phases"]
    pretrained = read_json(folder / "classifier" / RESULTS_FILE)
    random = read_json(folder / "classifier-random" / RESULTS_FILE)
    evaluation = read_json(folder / "evaluation" / METRICS_FILE)
    counts = records["counts"]
    results = {
        "corpus": f"{corpus['documents']:,} documents, {corpus['bytes_after'] / 1e6:.1f} MB",
        "vocabulary": f"{records['vocabulary']['size']:,} word pieces",
        "records": (
            f"{counts['instances']:,} instances of {SHORT_LENGTH} tokens, "
            f"{long_records['counts']['instances']:,} of {LONG_LENGTH}; "
            f"IsNext in {counts['is_next_share']:.1%} of the short ones"
        ),
        "pre-training": (
            f"masked LM {pretraining['masked_lm_accuracy']:.1%}, "
            f"next sentence {pretraining['next_sentence_accuracy']:.1%} held out, "
            f"at {LONG_LENGTH} tokens"
        ),
        "fine-tuning": f"accuracy {pretrained['accuracy']:.1%}",
        "fine-tuning, random weights": f"accuracy {random['accuracy']:.1%}",
        "evaluation": verdict(evaluation),
        "export": "a SavedModel that takes raw text",
    }
    return DemoSummary(
        steps=[
            ShownStep(
                name=step.command.name,
                command=step.command.line,
                seconds=step.seconds,
                output=str(step.command.output),
                result=results[step.command.name],
            )
            for step in done
        ],
        lengths=(SHORT_LENGTH, LONG_LENGTH),
        last_short_step=phases[0]["last_step"],
        pretraining=read_metrics(folder / "encoder" / CURVES_FILE),
        commonest_token_accuracy=pretraining["commonest_token_accuracy"],
        finetuning_pretrained=read_metrics(folder / "classifier" / CURVES_FILE),
        finetuning_random=read_metrics(folder / "classifier-random" / CURVES_FILE),
        pretrained_accuracy=pretrained["accuracy"],
        random_accuracy=random["accuracy"],
        majority_accuracy=pretrained["baseline_accuracy"],
        verdict=verdict(evaluation),
        slices=slices(evaluation),
        sentence=SENTENCE,
        answer=answer(done),
        seconds=sum(step.seconds for step in done),
    )


def slices(evaluation: Mapping[str, Any]) -> list[tuple[str, int, float]]:
    """Returns (slice, examples, accuracy) from an evaluation's metrics.json, overall first."""
    parts = {"overall": evaluation["overall"]}
    for column, values in evaluation["slices"].items():
        parts |= {f"{column} {value}": part for value, part in values.items()}
    return [(name, part["example_count"], part["accuracy"]) for name, part in parts.items()]


def verdict(evaluation: Mapping[str, Any]) -> str:
    """Returns BLESSED or NOT_BLESSED, the name of the evaluation's marker file."""
    return BLESSED if evaluation["blessed"] else NOT_BLESSED


def answer(done: Sequence[Done]) -> list[tuple[str, float]]:
    """Returns (label, probability) pairs that the step `export` printed; none if it did not run."""
    printed = [line for step in done if step.command.name == "export" for line in step.printed]
    found = (re.fullmatch(r" +([0-9.]+)%  (.+)", line) for line in printed)
    return [(match[2], float(match[1]) / 100) for match in found if match]
