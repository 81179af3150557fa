"""What a training run says of itself: progress lines with rate and ETA, and metrics.jsonl."""

import json
import time
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from pipelines.console import duration
from trainer import folders

# Updates in one graph call are chosen so that control comes back about this often.
SECONDS_A_CALL = 10.0
MOST_STEPS_A_CALL = 1000


def describe_metrics(metrics: Mapping[str, float]) -> str:
    """Formats metrics for a person: accuracies in percent, losses in nats."""
    parts = []
    for name, value in metrics.items():
        number = f"{value:.1%}" if name.endswith("accuracy") else f"{value:.3f}"
        parts.append(f"{name.replace('_', ' ')} {number}")
    return ", ".join(parts)


class Meter:
    """Measures the rate and chooses how many updates a graph call does."""

    def __init__(self, last_step: int, batch_size: int):
        """Takes what the ETA and the rate are made of."""
        self._last_step = last_step
        self._batch_size = batch_size
        self._calls = 0
        self._seconds_a_step = 0.0
        self._steps = 0

    def restart(self) -> None:
        """Starts the clock of the next call."""
        self._started = time.monotonic()

    def steps_a_call(self) -> int:
        """Returns 1 for the call that compiles and the first that doesn't, then what fits."""
        if not self._seconds_a_step:
            return 1
        return int(np.clip(SECONDS_A_CALL / self._seconds_a_step, 1, MOST_STEPS_A_CALL))

    def update(self, step: int, steps: int) -> dict[str, float]:
        """Takes a finished call; returns its rate, nothing for the one that compiled."""
        self._calls += 1
        now = time.monotonic()
        if self._calls == 1:
            self._compiled = now
            return {}
        self._seconds_a_step = (now - self._started) / steps
        self._steps += steps
        # With the evaluations and checkpoints so far, since more of them are to come.
        self._seconds_left = (self._last_step - step) * (now - self._compiled) / self._steps
        return {
            "seconds_per_step": self._seconds_a_step,
            "sequences_per_second": self._batch_size / self._seconds_a_step,
        }

    def line(self, step: int, metrics: Mapping[str, float], learning_rate: float) -> str:
        """Returns the progress line."""
        text = f"step {step:,}/{self._last_step:,}: {describe_metrics(metrics)}"
        text += f", learning rate {learning_rate:.2e}"
        if not self._steps:
            return text + " (compiled)"
        rate = f"{self._batch_size / self._seconds_a_step:.0f} sequences/s"
        return text + f", {rate}, {duration(self._seconds_left)} left"


class MetricsFile:
    """metrics.jsonl: a line for every logged step; a resumed run drops what it does again."""

    def __init__(self, path: str, step: int):
        """Reads what an earlier run wrote up to the step that this one starts from."""
        self._path = path
        lines = []
        if tf.io.gfile.exists(path):
            with tf.io.gfile.GFile(path) as file:
                lines = list(file)
        rows = [json.loads(line) for line in lines]
        self._rows = {(row["split"], row["step"]): row for row in rows if row["step"] <= step}

    def write(self, split: str, step: int, metrics: Mapping[str, float]) -> None:
        """Adds a line, or replaces the one of the same step."""
        rounded = {name: float(f"{value:.6g}") for name, value in metrics.items()}
        self._rows[split, step] = {"split": split, "step": step} | rounded

    def flush(self) -> None:
        """Writes the file anew: object stores can't append."""
        lines = [json.dumps(row) + "\n" for row in self._rows.values()]
        folders.write(self._path + ".tmp", "".join(lines).encode())
        tf.io.gfile.rename(self._path + ".tmp", self._path, overwrite=True)
