"""Progress of a training: its rates, and the lines to print."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from beambert.console import Pace, duration

if TYPE_CHECKING:
    from beambert.trainer.loop.steps import Phase

# A graph call does as many updates as take about this many seconds. A signal waits for its end.
SECONDS_A_CALL = 2.5
MOST_STEPS_A_CALL = 1000
# A training prints a line every this many seconds.
SECONDS_A_REPORT = 10.0


def describe_metrics(metrics: Mapping[str, float]) -> str:
    """Formats metrics for a person: accuracies in percent, losses in nats.

    Those of a source, "NAME/metric", are on a separate line.
    """
    lines: dict[str, list[str]] = {}
    for name, value in metrics.items():
        number = f"{value:.1%}" if name.endswith("accuracy") else f"{value:.3f}"
        source, _, metric = name.rpartition("/")
        lines.setdefault(source, []).append(f"{describe_name(metric)} {number}")
    texts = {source: ", ".join(parts) for source, parts in lines.items()}
    return "\n".join(f"  {source}: {text}" if source else text for source, text in texts.items())


def describe_name(metric: str) -> str:
    """Returns the name of a metric for a person."""
    return metric.replace("_", " ")


class Meter:
    """Measures the speed of a phase and chooses the number of updates in a graph call."""

    def __init__(self, last_step: int, phase: "Phase", tokens_later: int):
        """Takes the sizes that the remaining time and the rates are computed from.

        Args:
          last_step: last step of the whole run.
          phase: phase that is measured.
          tokens_later: number of tokens in the phases after it.
        """
        self._last_step = last_step
        self._phase = phase
        self._tokens_later = tokens_later
        self._calls = 0
        self._seconds_a_step = 0.0
        # It begins after the second call: the first one compiles, and the second one still waits
        # for the first batches.
        self._pace = Pace()
        self._seconds_left: float | None = None
        self._reported = -SECONDS_A_REPORT

    def is_due(self) -> bool:
        """Returns whether the next line is to be printed, and counts it as printed if so.

        The first two are: that of the call that compiles, and the first one with rates.
        """
        if self._calls > 2 and self._ended - self._reported < SECONDS_A_REPORT:
            return False
        self._reported = self._ended
        return True

    @property
    def has_compiled(self) -> bool:
        """Whether a call is done; the first one compiles the step."""
        return self._calls > 0

    def restart(self) -> None:
        """Starts the clock of the next call."""
        self._started = time.monotonic()

    def steps_a_call(self) -> int:
        """Returns the number of updates in the next call.

        It is 1 until a call after the one that compiles is measured.
        """
        if not self._seconds_a_step:
            return 1
        return int(np.clip(SECONDS_A_CALL / self._seconds_a_step, 1, MOST_STEPS_A_CALL))

    def update(self, step: int, steps: int) -> dict[str, float]:
        """Takes a finished call and returns its rates; the call that compiles has none."""
        self._calls += 1
        self._ended = now = time.monotonic()
        if self._calls == 1:
            return {}
        self._seconds_a_step = (now - self._started) / steps
        # The time of evaluations and checkpoints is included, since there will be more of them.
        if rate := self._pace.of(step, now):
            tokens = (self._phase.last_step - step) * self._phase.tokens_a_step + self._tokens_later
            self._seconds_left = tokens / (rate * self._phase.tokens_a_step)
        return {
            "seconds_per_step": self._seconds_a_step,
            "sequences_per_second": self._phase.sequences_a_step / self._seconds_a_step,
            "tokens_per_second": self._phase.tokens_a_step / self._seconds_a_step,
        }

    def line(self, step: int, metrics: Mapping[str, float], learning_rate: float) -> str:
        """Returns the progress line."""
        text = f"step {step:,}/{self._last_step:,}: {describe_metrics(metrics)}"
        text += f", learning rate {learning_rate:.2e}"
        if not self._seconds_a_step:
            return text + " (compiled)"
        sequences = self._phase.sequences_a_step / self._seconds_a_step
        text += f", {sequences:,.{0 if sequences >= 10 else 2}f} sequences/s"
        text += f", {self._phase.tokens_a_step / self._seconds_a_step:,.0f} tokens/s"
        if self._seconds_left is None:
            return text
        return text + f", {duration(self._seconds_left)} left"
