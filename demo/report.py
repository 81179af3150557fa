"""The report of the demonstration: a self-contained HTML page, and tables for the terminal."""

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

Lines = Sequence[Mapping[str, Any]]

TEXT_WIDTH = 100


class Report:
    """What the finished steps made, read from their folders."""

    def __init__(self, folder: Path, done: Sequence[Done]):
        """Reads the results of the steps.

        Args:
          folder: folder of the demonstration.
          done: the finished steps, in their order.
        """
        self.done = done
        self.corpus = read_json(folder / "corpus" / FINISHED_FILE)
        self.records = {
            length: read_json(folder / "records" / str(length) / INFO_FILE)
            for length in (SHORT_LENGTH, LONG_LENGTH)
        }
        self.pretraining = read_json(folder / "encoder" / RESULTS_FILE)
        self.phases = read_json(folder / "encoder" / TRAINING_FILE)["phases"]
        self.evaluation = read_json(folder / "evaluation" / METRICS_FILE)
        # From the pre-trained encoder, and from random weights.
        tuned = ("classifier", "classifier-random")
        self.results = [read_json(folder / name / RESULTS_FILE) for name in tuned]
        curves = [folder / name / CURVES_FILE for name in ("encoder", *tuned)]
        self.curves = [[*map(json.loads, path.read_text().splitlines())] for path in curves]

    @property
    def verdict(self) -> str:
        """BLESSED or NOT_BLESSED, the name of the evaluation's marker file."""
        return BLESSED if self.evaluation["blessed"] else NOT_BLESSED

    def key_results(self) -> list[tuple[str, str, str]]:
        """Returns (measure, value, value to compare with) for the main results."""
        found = self.pretraining
        (pretrained, random), of_long = self.results, f"of {LONG_LENGTH} tokens"
        return [
            (
                f"held-out masked-token accuracy, {of_long}",
                f"{found['masked_lm_accuracy']:.1%}",
                f"always the most common token: {found['commonest_token_accuracy']:.1%}",
            ),
            (
                f"held-out next-sentence accuracy, {of_long}",
                f"{found['next_sentence_accuracy']:.1%}",
                "always the same answer: about 50.0%",
            ),
            (
                "task accuracy, pre-trained",
                f"{pretrained['accuracy']:.1%}",
                f"from random weights: {random['accuracy']:.1%}; "
                f"always one class: {pretrained['baseline_accuracy']:.1%}",
            ),
            ("evaluation", self.verdict, f"held-out loss of pre-training: {found['loss']:.3f}"),
        ]

    def step_results(self) -> dict[str, str]:
        """Returns name of a step -> one line about its result."""
        short, long = (self.records[length]["counts"] for length in self.records)
        pretrained, random = self.results
        return {
            "corpus": f"{self.corpus['documents']:,} documents, "
            f"{self.corpus['bytes_after'] / 1e6:.1f} MB",
            "vocabulary": f"{self.records[SHORT_LENGTH]['vocabulary']['size']:,} word pieces",
            "records": f"{short['instances']:,} instances of {SHORT_LENGTH} tokens, "
            f"{long['instances']:,} of {LONG_LENGTH}; IsNext in {short['is_next_share']:.1%} of "
            "the short ones",
            "pre-training": f"masked LM {self.pretraining['masked_lm_accuracy']:.1%}, next "
            f"sentence {self.pretraining['next_sentence_accuracy']:.1%} held out, at "
            f"{LONG_LENGTH} tokens",
            "fine-tuning": f"accuracy {pretrained['accuracy']:.1%}",
            "fine-tuning, random weights": f"accuracy {random['accuracy']:.1%}",
            "evaluation": self.verdict,
            "export": "a SavedModel that takes raw text",
        }

    def slices(self) -> list[tuple[str, str, str]]:
        """Returns (slice, examples, accuracy) of the evaluation, overall first."""
        parts = {"overall": self.evaluation["overall"]}
        for column, values in self.evaluation["slices"].items():
            parts |= {f"{column} {value}": part for value, part in values.items()}
        return [
            (name, f"{part['example_count']:,}", f"{part['accuracy']:.1%}")
            for name, part in parts.items()
        ]

    def answer(self) -> list[tuple[str, float]]:
        """Returns (label, probability) that `export` printed; none if it did not run."""
        printed = [
            line for step in self.done if step.command.name == "export" for line in step.printed
        ]
        found = (re.fullmatch(r" +([0-9.]+)%  (.+)", line) for line in printed)
        return [(match[2], float(match[1]) / 100) for match in found if match]

    def html(self) -> str:
        """Returns the HTML page, which loads no other files."""
        state = GOOD if self.evaluation["blessed"] else BAD
        shown = [
            Card(value, name, comparison, state if name == "evaluation" else "")
            for name, value, comparison in self.key_results()
        ]
        answer = [(label, bar(share), f"{share:.1%}") for label, share in self.answer()]
        results = self.step_results()
        steps = [
            (
                step.command.name,
                duration(step.seconds),
                results[step.command.name],
                str(step.command.output),
                tag("code", step.command.line),
            )
            for step in self.done
        ]
        sections = [
            cards(shown),
            section("Pre-training", figures(*self._pretraining_figures())),
            section("Fine-tuning", figures(*self._finetuning_figures())),
            section(
                "Evaluation by slice",
                table(
                    ("slice", "examples", "accuracy"), self.slices(), ("name", "number", "number")
                ),
            ),
            section(
                "The exported model's answer",
                tag("p", f"“{SENTENCE}”"),
                table((), answer, ("name", "bar", "number")),
            ),
            section(
                "Steps",
                table(
                    ("step", "time", "result", "output", "command"),
                    steps,
                    ("name", "number", "short", "short", "text"),
                ),
            ),
        ]
        seconds = sum(step.seconds for step in self.done)
        about = f"From text to an evaluated encoder on this machine in {duration(seconds)}"
        return page("BeamBERT demonstration", about, sections)

    def text(self) -> str:
        """Returns the summary for a terminal, at most TEXT_WIDTH columns wide."""
        results = self.step_results()
        names = [step.command.name for step in self.done]
        times = [
            (step.command.name, duration(step.seconds), str(step.command.output))
            for step in self.done
        ]
        sections = {
            "Results": self.key_results(),
            "Steps": times,
            "Results of the steps": [(name, results[name]) for name in names],
            "Evaluation by slice": self.slices(),
        }
        lines = []
        for title, rows in sections.items():
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            padded = ("  " + "  ".join(map(str.ljust, row, widths)) for row in rows)
            lines += ["", title, *(line.rstrip()[:TEXT_WIDTH] for line in padded)]
        return "\n".join(lines[1:]) + "\n"

    def _pretraining_figures(self) -> "list[Figure]":
        """Returns plots of the loss and the two accuracies of the pre-training."""
        change = (f"{SHORT_LENGTH} → {LONG_LENGTH} tokens", self.phases[0]["last_step"])
        commonest = ("most common token", self.pretraining["commonest_token_accuracy"])
        levels = {
            "loss": None,
            "masked_lm_accuracy": commonest,
            "next_sentence_accuracy": ("chance", 0.5),
        }
        lines = self.curves[0]
        return [
            _draw(
                name.replace("_", " "),
                [
                    ("training", *_curve(lines, "train", name)),
                    ("held-out", *_curve(lines, "eval", name)),
                ],
                level,
                change,
            )
            for name, level in levels.items()
        ]

    def _finetuning_figures(self) -> "list[Figure]":
        """Returns plots of the training loss and held-out accuracy of the two fine-tunings."""
        runs = dict(zip(("pre-trained", "random weights"), self.curves[1:], strict=True))
        constant = ("always one class", self.results[0]["baseline_accuracy"])
        return [
            _draw(title, [(run, *_curve(lines, split, name)) for run, lines in runs.items()], level)
            for title, split, name, level in (
                ("training loss of the task", "train", "loss", None),
                ("held-out accuracy of the task", "eval", "accuracy", constant),
            )
        ]


def _curve(lines: Lines, split: str, name: str) -> tuple[list[int], list[float]]:
    """Returns the steps and the values of one metric over one split."""
    points = [line for line in lines if line["split"] == split and name in line]
    return [line["step"] for line in points], [line[name] for line in points]


def _draw(
    title: str,
    curves: Iterable[tuple[str, list[int], list[float]]],
    level: tuple[str, float] | None,
    change: tuple[str, int] | None = None,
) -> "Figure":
    """Returns a plot over the training steps.

    Args:
      title: label of the vertical axis.
      curves: (label, steps, values) of two curves at most; empty curves are left out.
      level: (label, value) of a horizontal line to compare with.
      change: (label, step) of a vertical line at a change in the training.
    """
    figure = new_figure()
    axes = figure.subplots()
    for colour, (label, steps, values) in zip((BLUE, AMBER), curves, strict=True):
        if steps:
            marker = "o" if len(steps) < 12 else None
            axes.plot(steps, values, color=colour, label=label, marker=marker, markersize=4)
    if level:
        axes.axhline(level[1], color=GREY, linestyle="--", label=level[0])
    if change:
        axes.axvline(change[1], color=GREY, linestyle=":", label=change[0])
    axes.set(xlabel="step", ylabel=title)
    axes.grid(color=GREY, alpha=0.25)
    axes.legend(frameon=False)
    return figure
