"""The summary of the demonstration: tables for the terminal."""

from collections.abc import Sequence
from pathlib import Path

from beambert.console import duration
from beambert.demo.corpus import FINISHED_FILE
from beambert.demo.run import LONG_LENGTH, SHORT_LENGTH, Done, read_json
from beambert.folders import BLESSED, METRICS_FILE, NOT_BLESSED
from beambert.model_files import RESULTS_FILE
from beambert.pipelines.records.contract import INFO_FILE

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
        self.evaluation = read_json(folder / "evaluation" / METRICS_FILE)
        # From the pre-trained encoder, and from random weights.
        tuned = ("classifier", "classifier-random")
        self.results = [read_json(folder / name / RESULTS_FILE) for name in tuned]

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
