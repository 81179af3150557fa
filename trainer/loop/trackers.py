"""Trackers: they take the metrics of a training, all of them by the same calls.

Every training writes metrics.jsonl and TensorBoard's events. `--tracker` adds a service. Another
service is a class in `services.py` with the methods of `Tracker`, and a line in its table.
"""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf

from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.storage.weights import CURVES_FILE
from beambert.trainer import model_folders
from beambert.trainer.loop.checkpoints import CONTINUES
from beambert.trainer.loop.services import SERVICES


class Tracker(Protocol):
    """Takes the metrics of a training, by these calls in this order."""

    def start(self, configuration: Mapping[str, Any], step: int) -> None:
        """Begins, or continues what an interrupted training began.

        Args:
          configuration: content of training.json.
          step: step that the training continues from; 0 for a new training.
        """

    def log(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Takes the metrics of a step; `split` is "train" or "eval"."""

    def save(self) -> None:
        """Makes the metrics so far last, since a checkpoint is about to be written."""

    def finish(self, is_complete: bool) -> None:
        """Ends; `is_complete` is False if the training was interrupted or failed."""


class MetricsFile:
    """metrics.jsonl, with a line for every logged step.

    A resumed run drops the lines of the steps that it repeats.
    """

    def __init__(self, folder: str):
        """Takes the model folder."""
        self._path = f"{folder}/{CURVES_FILE}"
        self._rows: dict[tuple[str, int], dict] = {}

    def start(self, configuration: Mapping[str, Any], step: int) -> None:
        """Reads the lines of an earlier run up to a step."""
        is_there = tensorflow_files.exists(self._path)
        rows = rows_of(tensorflow_files.read_bytes(self._path) if is_there else b"")
        self._rows = {(row["split"], row["step"]): row for row in rows if row["step"] <= step}

    def log(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Adds a line, or replaces the one of the same step."""
        self._rows[split, step] = {"split": split, "step": step, **values}

    def save(self) -> None:
        """Writes the whole file, since object stores cannot append.

        Raises:
          InputError: the file cannot be written.
        """
        lines = [json.dumps(row) + "\n" for row in self._rows.values()]
        tensorflow_files.write_bytes(self._path, "".join(lines).encode())

    def finish(self, is_complete: bool) -> None:
        """Does nothing; everything is written."""


class TensorBoard:
    """TensorBoard's events. Of a step that is repeated TensorBoard shows the newer ones."""

    def __init__(self, folder: str):
        """Takes the folder of the events."""
        self._folder = folder
        self._writers: dict[str, tf.summary.SummaryWriter] = {}
        self._unwritten: list[tuple[int, str, Mapping[str, float]]] = []

    def start(self, configuration: Mapping[str, Any], step: int) -> None:
        """Does nothing; the first events make the files."""

    def log(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Keeps the metrics until `save`."""
        self._unwritten.append((step, split, values))

    def save(self) -> None:
        """Writes the new events.

        Raises:
          InputError: they cannot be written.
        """
        with tensorflow_files.told(self._folder, "written", CONTINUES):
            for step, split, values in self._unwritten:
                # Each split is a run of its own, so that their curves are in one plot.
                if split not in self._writers:
                    path = f"{self._folder}/{split}"
                    self._writers[split] = tf.summary.create_file_writer(path)
                with self._writers[split].as_default():
                    for name, value in values.items():
                        tf.summary.write(name, tf.constant(value), step=step, metadata=_SCALARS)
            for writer in self._writers.values():
                writer.flush()
        self._unwritten = []

    def finish(self, is_complete: bool) -> None:
        """Closes the files."""
        with contextlib.suppress(*tensorflow_files.STORAGE_ERRORS):
            for writer in self._writers.values():
                writer.close()


# tf.summary.scalar would need TensorBoard to be installed.
_SCALARS = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
)


class Service:
    """A tracker outside of this machine, whose failure must not end a training."""

    def __init__(self, name: str, tracker: Tracker):
        """Takes the value of `--tracker` and its tracker."""
        self._name = name
        self._tracker = tracker
        self._has_failed = False

    def start(self, configuration: Mapping[str, Any], step: int) -> None:
        """See `Tracker`."""
        self._try(self._tracker.start, configuration, step)

    def log(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        self._try(self._tracker.log, step, split, values)

    def save(self) -> None:
        """See `Tracker`."""
        self._try(self._tracker.save)

    def finish(self, is_complete: bool) -> None:
        """See `Tracker`."""
        self._try(self._tracker.finish, is_complete)

    def _try(self, call: Callable[..., None], *given: object) -> None:
        """Calls the tracker, unless it has failed; says so once."""
        if self._has_failed:
            return
        try:
            call(*given)
        except Exception as error:  # Each service has exceptions of its own.
            self._has_failed = True
            reason = tensorflow_files.reason(error).rstrip(".")
            print(f"--tracker={self._name}: {reason}; the training goes on without it", flush=True)


class Trackers:
    """All trackers of a training as one. It is a context manager, which finishes them."""

    def __init__(self, trackers: Sequence[Tracker]):
        """Takes the trackers; none for a worker that writes nothing."""
        self._trackers = trackers

    def start(self, configuration: Mapping[str, Any], step: int) -> None:
        """See `Tracker`."""
        for tracker in self._trackers:
            tracker.start(configuration, step)

    def log(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Passes the metrics on, rounded to six digits; float32 has little more than that."""
        rounded = {name: float(f"{value:.6g}") for name, value in values.items()}
        for tracker in self._trackers:
            tracker.log(step, split, rounded)

    def save(self) -> None:
        """See `Tracker`.

        Raises:
          InputError: the files or the events cannot be written.
        """
        for tracker in self._trackers:
            tracker.save()

    def __enter__(self) -> "Trackers":
        """Returns itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finishes all trackers; the training is complete if there is no exception."""
        for tracker in self._trackers:
            tracker.finish(kind is None)


def open_trackers(output: model_folders.TrainingFolders, service: str | None) -> Trackers:
    """Returns the trackers of a training.

    Args:
      output: folders for metrics.jsonl and TensorBoard's events.
      service: name of a service in `SERVICES` that takes the metrics, too; None for none.
    """
    trackers: list[Tracker] = [MetricsFile(output.model), TensorBoard(output.tensorboard)]
    if service:
        trackers.append(Service(service, SERVICES[service](output.model)))
    return Trackers(trackers)


def rows_of(data: bytes) -> list[dict[str, Any]]:
    """Returns the lines of metrics.jsonl up to a damaged one, which must not end a training."""
    rows = []
    with contextlib.suppress(ValueError):
        for line in data.splitlines():
            rows.append(json.loads(line))
    return rows
