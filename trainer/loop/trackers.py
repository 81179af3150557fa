"""The metrics of a training: metrics.jsonl, TensorBoard's events, and a service.

`--tracker` names the service, MLflow or Weights & Biases, which its own environment variables
configure. The id of its run is kept in the model folder, so that a training that is continued goes
on in the same run. Another service is a class with the methods of `Mlflow` and a line in
`SERVICES`.
"""

import contextlib
import hashlib
import json
import os
import queue
import struct
import sys
import threading
import time
import types
from collections.abc import Callable, Mapping
from typing import Any

from beambert import io
from beambert.model_files import CURVES_FILE
from beambert.pipelines.records.batches import masked_crc
from beambert.trainer.loop.config import MLFLOW, WANDB, TrainingFolders

# The ids of a training's runs by service, in its model folder.
RUNS_FILE = "tracker.json"
# The project or experiment of a run if no variable names one.
DEFAULT_PROJECT = "beambert"
# The end of a training waits this long for a service that has not taken all metrics yet. A machine
# that is taken away leaves about as much time.
SECONDS_TO_FINISH = 30.0


class TrainingLog:
    """Writes the metrics of a training. It is a context manager, which closes the files."""

    def __init__(self, output: TrainingFolders, service: str | None, writes: bool = True):
        """Takes where the metrics go.

        Args:
          output: folders for metrics.jsonl and TensorBoard's events.
          service: one of `SERVICES` that takes the metrics, too; None for none.
          writes: False for a worker that writes nothing.
        """
        self._writes = writes
        self._path, self._events = f"{output.model_dir}/{CURVES_FILE}", output.tensorboard_dir
        self._service = Service(service, output.model_dir) if service and writes else None
        self._rows: dict[tuple[str, int], dict] = {}
        self._files: dict[str, tuple[str, bytearray]] = {}
        self._unwritten: list[tuple[int, str, Mapping[str, float]]] = []

    def start(self, configuration: Mapping[str, Any], step: int) -> None:
        """Begins, or continues what an interrupted training began.

        The lines of the steps that are repeated are dropped.

        Args:
          configuration: content of training.json.
          step: step that the training continues from; 0 for a new training.
        """
        if self._writes:
            rows = rows_of(io.read_bytes(self._path)) if io.exists(self._path) else []
            self._rows = {(row["split"], row["step"]): row for row in rows if row["step"] <= step}
        if self._service:
            self._service.put("start", configuration)

    def log(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Takes the metrics of a step, see `rounded`; `split` is "train" or "eval"."""
        if not self._writes:
            return
        values = rounded(values)
        self._rows[split, step] = {"split": split, "step": step, **values}
        self._unwritten.append((step, split, values))
        if self._service:
            # Both services show names of this form in groups.
            self._service.put("log", step, {f"{split}/{name}": v for name, v in values.items()})

    def save(self) -> None:
        """Writes the metrics so far, since a checkpoint is about to be written.

        Raises:
          InputError: they cannot be written.
        """
        if not self._writes:
            return
        # The whole file, since object stores cannot append.
        lines = [json.dumps(row) + "\n" for row in self._rows.values()]
        io.write_bytes(self._path, "".join(lines).encode())
        for step, split, values in self._unwritten:
            # Each split is a separate run, so that their curves are in one plot.
            if split not in self._files:
                name = f"events.out.tfevents.{int(time.time()):010d}.{os.getpid()}"
                first = bytearray(_record(_event(version=b"brain.Event:2")))
                self._files[split] = f"{self._events}/{split}/{name}", first
            self._files[split][1].extend(_record(_event(step, values)))
        for path, events in self._files.values():
            io.write_bytes(path, bytes(events))
        self._unwritten = []

    def __enter__(self) -> "TrainingLog":
        """Returns itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Ends the run of the service; the training is complete if there is no exception."""
        if self._service:
            self._service.finish(is_complete=kind is None)


# The events of TensorBoard (tensorboard/compat/proto: event.proto, summary.proto, tensor.proto), in
# the encoding of Protocol Buffers, by which a number and a type precede each field.


def _event(
    step: int = 0, values: Mapping[str, float] = types.MappingProxyType({}), version: bytes = b""
) -> bytes:
    """Returns an event with scalars, or the first one of a file."""
    scalars = b"".join(_field(1, _scalar(name, value)) for name, value in values.items())
    content = _field(3, version) if version else _field(5, scalars)
    return b"\x09" + struct.pack("<d", time.time()) + b"\x10" + _varint(step) + content


def _scalar(name: str, value: float) -> bytes:
    tensor = b"\x08\x01" + _field(2, b"") + _field(5, struct.pack("<f", value))
    metadata = _field(1, _field(1, b"scalars"))  # the plugin that shows it
    return _field(1, name.encode()) + _field(8, tensor) + _field(9, metadata)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def _record(data: bytes) -> bytes:
    """Returns a record of TFRecord, the format of event files."""
    length = struct.pack("<Q", len(data))
    return b"".join(part + struct.pack("<I", masked_crc(part)) for part in (length, data))


class Service:
    """A service outside of this machine, which neither ends a training nor makes it wait.

    A separate thread makes the calls, since a service without a network may take minutes to fail.
    """

    def __init__(self, name: str, folder: str):
        """Takes the value of `--tracker` and the model folder."""
        self._name = name
        self._client = SERVICES[name](folder)
        self._calls: queue.SimpleQueue[tuple | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._make_calls, daemon=True)
        self._thread.start()

    def put(self, method: str, *arguments: object) -> None:
        """Lets the thread call a method of the client, unless the service has failed."""
        if self._thread.is_alive():
            self._calls.put((method, *arguments))

    def finish(self, is_complete: bool) -> None:
        """Ends the run; waits up to `SECONDS_TO_FINISH` for what isn't sent yet."""
        self.put("finish", is_complete)
        self._calls.put(None)
        self._thread.join(SECONDS_TO_FINISH)
        if self._thread.is_alive():
            self._print("does not answer, so the last metrics are missing there")

    def _make_calls(self) -> None:
        while call := self._calls.get():
            method, *arguments = call
            try:
                getattr(self._client, method)(*arguments)
            except Exception as error:  # Each service has its own exceptions.
                reason = io.reason(error).rstrip(".")
                self._print(f"{reason}; the training goes on without it")
                return

    def _print(self, message: str) -> None:
        print(f"--tracker={self._name}: {message}", flush=True)


class Mlflow:
    """A run of MLflow.

    It uses MLflow's client, not its functions: these would take another run of the user's program
    for this one.
    """

    def __init__(self, folder: str):
        """Takes the model folder."""
        self._folder = folder

    def start(self, configuration: Mapping[str, Any]) -> None:
        """Starts the run, or continues it."""
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._client = MlflowClient()
        if known := _run_ids(self._folder).get(MLFLOW):
            self._run_id = known
            self._client.update_run(known, status="RUNNING")
            return  # MLflow refuses to change the parameters of a run.
        experiment = os.environ.get("MLFLOW_EXPERIMENT_ID")
        if not experiment:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", DEFAULT_PROJECT)
            found = self._client.get_experiment_by_name(name)
            experiment = found.experiment_id if found else self._client.create_experiment(name)
        run = self._client.create_run(experiment, run_name=os.path.basename(self._folder))
        self._run_id = run.info.run_id
        _keep_run_id(self._folder, MLFLOW, self._run_id)
        params = [Param(name, str(v)) for name, v in flat_settings(configuration).items()]
        self._client.log_batch(self._run_id, params=params)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Sends the metrics of a step."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())  # milliseconds, as MLflow counts
        metrics = [Metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self._run_id, metrics)

    def finish(self, is_complete: bool) -> None:
        """Ends the run."""
        self._client.set_terminated(self._run_id, "FINISHED" if is_complete else "KILLED")


class Wandb:
    """A run of Weights & Biases."""

    def __init__(self, folder: str):
        """Takes the model folder."""
        self._folder = folder

    def start(self, configuration: Mapping[str, Any]) -> None:
        """Starts the run, or continues it."""
        import wandb

        hooks = sys.excepthook, sys.exit
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", DEFAULT_PROJECT),
                name=os.environ.get("WANDB_NAME", os.path.basename(self._folder)),
                id=_run_ids(self._folder).get(WANDB),
                resume="allow",
                config=dict(configuration),
                allow_val_change=True,
                reinit="create_new",  # leaves another run of the user's program alone
            )
        finally:
            # It replaces these to see how the process ends, and would leave them replaced.
            sys.excepthook, sys.exit = hooks
        _keep_run_id(self._folder, WANDB, self._run.id)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Sends the metrics of a step."""
        self._run.log(dict(values), step=step)

    def finish(self, is_complete: bool) -> None:
        """Ends the run."""
        self._run.finish(exit_code=0 if is_complete else 1)


# value of `--tracker` -> the class, which takes the model folder
SERVICES: dict[str, Callable[[str], Mlflow | Wandb]] = {MLFLOW: Mlflow, WANDB: Wandb}


def _run_ids(folder: str) -> dict[str, str]:
    """Returns service -> id of the run of the training in a model folder."""
    path = f"{folder}/{RUNS_FILE}"
    return io.read_object(path) if io.exists(path) else {}


def _keep_run_id(folder: str, service: str, run_id: str) -> None:
    content = json.dumps(_run_ids(folder) | {service: run_id})
    io.write_bytes(f"{folder}/{RUNS_FILE}", content.encode())


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings in one level: `loop.dtype` for "dtype" in "loop".

    Args:
      settings: settings such as those of training.json. The SHA-256 sums of files are replaced by
        the first twelve digits of a sum over them.
      prefix: put before each name.
    """
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if name.endswith("sha256") and value:
            flat[f"{prefix}{name}"] = hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]
        elif isinstance(value, Mapping):
            flat |= flat_settings(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            numbered = {str(number): entry for number, entry in enumerate(value)}
            flat |= flat_settings(numbered, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def rounded(values: Mapping[str, float]) -> dict[str, float]:
    """Returns metrics with six digits; float32 has little more than that."""
    return {name: float(f"{value:.6g}") for name, value in values.items()}


def rows_of(data: bytes) -> list[dict[str, Any]]:
    """Returns the lines of metrics.jsonl up to a damaged one, which must not end a training."""
    rows = []
    with contextlib.suppress(ValueError):
        for line in data.splitlines():
            row = io.parse_object(line)
            if not isinstance(row.get("split"), str) or not isinstance(row.get("step"), int):
                break
            rows.append(row)
    return rows
