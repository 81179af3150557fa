"""Trackers: they take the metrics of a training, all of them by the same calls.

Every training writes metrics.jsonl and TensorBoard's events. `--tracker` adds a service. Another
service is a class in `services.py` with the methods of `Tracker`, and a line in its table.
"""

import contextlib
import json
import queue
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf

from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.storage.model_files import CURVES_FILE
from beambert.trainer import model_folders
from beambert.trainer.loop.checkpoints import CONTINUES
from beambert.trainer.loop.services import SERVICES

# The end of a training waits so long for a service that has not taken all metrics yet. A machine
# that is taken away leaves about as much time.
SECONDS_TO_FINISH = 30.0
# Largest number of characters of a metric's name in a line that isn't damaged. A plot with a longer
# title takes minutes.
_LONGEST_NAME = 200


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
        self._rows = {(row["split"], row["step"]): row for row in _rows_until(self._path, step)}

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
    """A tracker outside of this machine, which neither ends a training nor makes it wait.

    A thread of its own makes the calls, since a service without a network may take minutes to fail.
    """

    def __init__(self, name: str, tracker: Tracker):
        """Takes the value of `--tracker` and its tracker."""
        self._name = name
        self._tracker = tracker
        self._calls: queue.SimpleQueue[tuple | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._make_calls, daemon=True)

    def start(self, configuration: Mapping[str, Any], step: int) -> None:
        """See `Tracker`."""
        self._thread.start()
        self._put(self._tracker.start, configuration, step)

    def log(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        self._put(self._tracker.log, step, split, values)

    def save(self) -> None:
        """See `Tracker`."""
        self._put(self._tracker.save)

    def finish(self, is_complete: bool) -> None:
        """See `Tracker`; waits a little for what isn't sent yet."""
        self._put(self._tracker.finish, is_complete)
        self._calls.put(None)
        self._thread.join(SECONDS_TO_FINISH)
        if self._thread.is_alive():
            self._say("does not answer, so the last metrics are not there")

    def _put(self, *call: object) -> None:
        if self._thread.is_alive():  # until the service fails
            self._calls.put(call)

    def _make_calls(self) -> None:
        while call := self._calls.get():
            function, *given = call
            try:
                function(*given)
            except Exception as error:  # Each service has exceptions of its own.
                reason = tensorflow_files.reason(error).rstrip(".")
                self._say(f"{reason}; the training goes on without it")
                return

    def _say(self, text: str) -> None:
        print(f"--tracker={self._name}: {text}", flush=True)


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
        """Passes the metrics on, see `rounded`."""
        for tracker in self._trackers:
            tracker.log(step, split, rounded(values))

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


def rounded(values: Mapping[str, float]) -> dict[str, float]:
    """Returns metrics with six digits; float32 has little more than that."""
    return {name: float(f"{value:.6g}") for name, value in values.items()}


def recorded_evaluations(folder: str, step: int) -> dict[int, dict[str, Any]]:
    """Returns step -> metrics on held-out data, of the evaluations up to a step."""
    rows = _rows_until(f"{folder}/{CURVES_FILE}", step)
    return {row["step"]: row for row in rows if row["split"] == "eval"}


def _rows_until(path: str, step: int) -> list[dict[str, Any]]:
    """Returns the lines of a metrics.jsonl up to a step; none if there is no such file."""
    data = tensorflow_files.read_bytes(path) if tensorflow_files.exists(path) else b""
    return [row for row in rows_of(data) if row["step"] <= step]


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("split"), str)
        and isinstance(row.get("step"), int)
        and all(len(name) <= _LONGEST_NAME for name in row)
    )


def rows_of(data: bytes) -> list[dict[str, Any]]:
    """Returns the lines of metrics.jsonl up to a damaged one, which must not end a training."""
    rows = []
    with contextlib.suppress(ValueError):
        for line in data.splitlines():
            row = json.loads(line)
            if not _is_row(row):
                break
            rows.append(row)
    return rows
