"""The checkpoints of a training, and the weights of its best evaluation.

A checkpoint is a folder that is named after its step. It holds arrays by name, which any engine and
`safetensors.numpy.load_file` read:

    ckpt-000100/model.safetensors       the trained variables
    ckpt-000100/optimizer.safetensors   the optimizer's moments
    ckpt-000100/checkpoint.json         the step, the evaluations so far, the SHA-256 of the files

It is written under a temporary name, by a thread, while the training goes on.
"""

import concurrent.futures
import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from beambert import io
from beambert.errors import InputError
from beambert.trainer.loop.config import TrainingFolders
from beambert.trainer.weights.arrays import from_bytes, to_bytes

# Remedy in errors of storage that occur in the middle of a training.
CONTINUES = "fix that and run the same command again, which continues"
MODEL, OPTIMIZER = "model", "optimizer"
STATE_FILE = "checkpoint.json"

# What reading damaged files raises.
_DAMAGED = (ValueError, LookupError, AttributeError)

Arrays = Mapping[str, np.ndarray]
Evaluations = Mapping[int, Mapping[str, float]]


def checkpoint_path(folder: str, step: int) -> str:
    """Returns the path of the checkpoint of a step."""
    return f"{folder}/ckpt-{step:06d}"


def checkpoint_steps(folder: str) -> list[int]:
    """Returns the steps of the checkpoints in a folder, ascending.

    Raises:
      InputError: the folder cannot be listed.
    """
    names = io.list_folder(folder, CONTINUES)
    return sorted(int(found[1]) for name in names if (found := re.fullmatch(r"ckpt-(\d+)", name)))


def write_checkpoint(
    path: str, step: int, parts: Mapping[str, Arrays], evaluations: Evaluations
) -> None:
    """Writes a checkpoint, completely or not at all, in the place of an older one.

    Args:
      path: path of its folder.
      step: number of updates that are done.
      parts: name of the file without its ending -> arrays by name.
      evaluations: step -> metrics on held-out data.

    Raises:
      InputError: it cannot be written.
    """
    with io.temporary_path(path) as made:
        sums = {}
        for part, arrays in parts.items():
            data = to_bytes(arrays)
            sums[f"{part}.safetensors"] = hashlib.sha256(data).hexdigest()
            with io.create(f"{made}/{part}.safetensors", path, CONTINUES) as file:
                file.write(data)
        state = {"step": step, "evaluations": evaluations, "sha256": sums}
        with io.create(f"{made}/{STATE_FILE}", path, CONTINUES) as file:
            file.write(json.dumps(state, indent=1).encode())
        io.move(made, path)


def read_checkpoint(
    path: str, wanted: Collection[str] = (MODEL, OPTIMIZER)
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, Any]]:
    """Returns the arrays of a checkpoint's files, and the content of its checkpoint.json.

    Args:
      path: path of its folder.
      wanted: names of the files without their ending.

    Raises:
      InputError: a file cannot be read.
      ValueError: a file is damaged.
    """
    state = io.parse_object(io.read_bytes(f"{path}/{STATE_FILE}"))
    parts = {}
    for part in wanted:
        name = f"{part}.safetensors"
        data = b"".join(io.read_chunks(f"{path}/{name}"))
        if hashlib.sha256(data).hexdigest() != state.get("sha256", {}).get(name):
            raise ValueError(f"{name} does not have the SHA-256 in {STATE_FILE}")
        parts[part] = from_bytes(data)
    return parts, state


class Checkpoints:
    """The checkpoints of a training, and its best weights so far in a folder of their own.

    It is a context manager, at whose end everything is written.
    """

    def __init__(self, output: TrainingFolders, keep: int | None):
        """Takes the folders, which need not exist, and the number that is kept, None for all."""
        self.folder, self._best = output.checkpoint_dir, output.best_weights
        self._keep = keep
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._last: concurrent.futures.Future | None = None

    def __enter__(self) -> "Checkpoints":
        """Returns itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Waits until everything is written; raises why it is not unless another error does."""
        self._thread.shutdown()
        if kind is None:
            self.wait()

    def wait(self) -> None:
        """Waits until everything is written.

        Raises:
          InputError: something cannot be written.
        """
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def restore_newest(
        self, restore: Callable[[int, dict[str, dict[str, np.ndarray]]], None]
    ) -> tuple[str, dict[int, dict[str, float]]] | None:
        """Restores the newest checkpoint that can be read.

        Args:
          restore: takes a step and the arrays of each file; it changes nothing if it raises a
            ValueError.

        Returns:
          the path and the evaluations of the checkpoint; None if there are no checkpoints.

        Raises:
          InputError: there are checkpoints, but none can be read.
        """
        newest_first = checkpoint_steps(self.folder)[::-1]
        for step in newest_first:
            path = checkpoint_path(self.folder, step)
            try:
                parts, state = read_checkpoint(path)
                restore(step, parts)
                return path, {int(of): each for of, each in state["evaluations"].items()}
            except (InputError, *_DAMAGED) as error:
                reason = io.reason(error)
                print(f"{path}: cannot be read ({reason}); trying the one before", flush=True)
        if newest_first:
            raise InputError(
                f"{self.folder}: none of its checkpoints can be read; choose another --model_dir "
                "or delete the folder"
            )
        return None

    def save(self, step: int, parts: Mapping[str, Arrays], evaluations: Evaluations) -> None:
        """Lets the thread write a checkpoint, and delete those that are not kept."""
        evaluations = dict(evaluations)

        def write() -> None:
            write_checkpoint(checkpoint_path(self.folder, step), step, parts, evaluations)
            if self._keep is not None:
                for old in checkpoint_steps(self.folder)[: -self._keep]:
                    io.delete(checkpoint_path(self.folder, old))

        self._submit(write)

    def save_best(self, step: int, weights: Arrays, evaluations: Evaluations, metric: str) -> None:
        """Lets the thread write the best weights, and delete those that are not needed any more."""
        evaluations = dict(evaluations)

        def write() -> None:
            path, of_step = checkpoint_path(self._best, step), {step: evaluations[step]}
            write_checkpoint(path, step, {MODEL: weights}, of_step)
            needed = needed_steps(evaluations, metric, checkpoint_steps(self.folder))
            for old in set(checkpoint_steps(self._best)) - {step, *needed}:
                io.delete(checkpoint_path(self._best, old))

        self._submit(write)

    def read_best(self, step: int) -> Arrays:
        """Returns the weights of a step that were the best.

        Raises:
          InputError: they cannot be read.
        """
        self.wait()
        path = checkpoint_path(self._best, step)
        try:
            parts, _ = read_checkpoint(path, [MODEL])
        except _DAMAGED as error:
            raise InputError(
                f"{path}: cannot be read ({io.reason(error)}); delete {self.folder} and train again"
            ) from error
        return parts[MODEL]

    def _submit(self, function: Callable[[], None]) -> None:
        self.wait()
        self._last = self._thread.submit(function)


def rank(metrics: Mapping[str, float], metric: str) -> tuple[float, float]:
    """Returns a key that is greater for better metrics: one metric decides, then the loss."""
    sign = -1 if metric == "loss" else 1
    return _least_if_nan(sign * metrics.get(metric, math.nan)), _least_if_nan(-metrics["loss"])


def _least_if_nan(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def best_step(evaluations: Evaluations, metric: str) -> int:
    """Returns the first step with the best metrics, of step -> metrics."""
    return max(sorted(evaluations), key=lambda step: rank(evaluations[step], metric))


def is_over(evaluations: Evaluations, metric: str, patience: int) -> bool:
    """Returns whether none of the last `patience` evaluations was better than one before them."""
    if len(evaluations) <= patience:
        return False
    return best_step(evaluations, metric) <= sorted(evaluations)[-patience - 1]


def needed_steps(evaluations: Evaluations, metric: str, resumable: Collection[int]) -> set[int]:
    """Returns the steps that are or were the best, for a training and all that may resume from it.

    Args:
      evaluations: step -> metrics of all evaluations so far.
      metric: see `rank`.
      resumable: steps of the checkpoints, from which the training may be resumed. It then knows
        the evaluations up to there only.
    """
    known = [evaluations]
    known += [
        {s: evaluation for s, evaluation in evaluations.items() if s <= last} for last in resumable
    ]
    return {best_step(some, metric) for some in known if some}
