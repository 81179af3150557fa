"""Services that show the metrics of trainings: MLflow, and Weights & Biases.

Their own environment variables say where they are and how to sign in. The run's id is kept in the
model folder, so that a training that is continued goes on in the same run.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from beambert.pipelines.storage import tensorflow_files
from beambert.trainer.loop.config import MLFLOW, WANDB
from beambert.trainer.loop.settings import flat_settings

# The ids of a training's runs by service, in its model folder.
RUNS_FILE = "tracker.json"
# The project or experiment of a run if no variable names one.
DEFAULT_PROJECT = "beambert"


class _RunId:
    """The id of a training's run at a service, in a file of the model folder."""

    def __init__(self, folder: str, service: str):
        self._path = f"{folder}/{RUNS_FILE}"
        self._service = service

    def _all(self) -> dict[str, str]:
        is_there = tensorflow_files.exists(self._path)
        return json.loads(tensorflow_files.read_bytes(self._path)) if is_there else {}

    def read(self) -> str | None:
        return self._all().get(self._service)

    def write(self, run_id: str) -> None:
        ids = self._all() | {self._service: run_id}
        tensorflow_files.write_bytes(self._path, json.dumps(ids).encode())


class Mlflow:
    """A run of MLflow; see `trackers.Tracker` for the methods.

    It uses MLflow's client, not its functions: these would take a run of the user's own for ours.
    """

    def __init__(self, folder: str):
        """Takes the model folder."""
        self._folder = folder
        self._id = _RunId(folder, MLFLOW)

    def start(self, configuration: Mapping[str, Any], step: int) -> None:
        """Starts the run, or continues it."""
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._client = MlflowClient()
        if known := self._id.read():
            self._run_id = known
            self._client.update_run(known, status="RUNNING")
            return  # MLflow refuses to change the parameters of a run.
        name = os.path.basename(self._folder)
        self._run_id = self._client.create_run(self._experiment(), run_name=name).info.run_id
        self._id.write(self._run_id)
        settings = flat_settings(configuration).items()
        self._client.log_batch(self._run_id, params=[Param(n, str(value)) for n, value in settings])

    def _experiment(self) -> str:
        """Returns the id of the experiment that MLflow's variables name; makes it if need be."""
        if given := os.environ.get("MLFLOW_EXPERIMENT_ID"):
            return given
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", DEFAULT_PROJECT)
        found = self._client.get_experiment_by_name(name)
        return found.experiment_id if found else self._client.create_experiment(name)

    def log(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Sends the metrics of a step."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())  # milliseconds, as MLflow counts
        named = _with_split(split, values).items()
        self._client.log_batch(self._run_id, [Metric(n, value, now, step) for n, value in named])

    def save(self) -> None:
        """Does nothing; everything is sent."""

    def finish(self, is_complete: bool) -> None:
        """Ends the run."""
        self._client.set_terminated(self._run_id, "FINISHED" if is_complete else "KILLED")


class Wandb:
    """A run of Weights & Biases; see `trackers.Tracker` for the methods."""

    def __init__(self, folder: str):
        """Takes the model folder."""
        self._folder = folder
        self._id = _RunId(folder, WANDB)

    def start(self, configuration: Mapping[str, Any], step: int) -> None:
        """Starts the run, or continues it."""
        import wandb

        hooks = sys.excepthook, sys.exit
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", DEFAULT_PROJECT),
                name=os.environ.get("WANDB_NAME", os.path.basename(self._folder)),
                id=self._id.read(),
                resume="allow",
                config=dict(configuration),
                allow_val_change=True,
                reinit="create_new",  # a program's own run goes on beside this one
            )
        finally:
            # It hooks into these to learn how the process ends, and would leave the hooks there.
            sys.excepthook, sys.exit = hooks
        self._id.write(self._run.id)

    def log(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Sends the metrics of a step."""
        self._run.log(_with_split(split, values), step=step)

    def save(self) -> None:
        """Does nothing; everything is sent."""

    def finish(self, is_complete: bool) -> None:
        """Ends the run."""
        self._run.finish(exit_code=0 if is_complete else 1)


def _with_split(split: str, values: Mapping[str, float]) -> dict[str, float]:
    """Returns the metrics by the names that both services show in groups: train/loss."""
    return {f"{split}/{name}": value for name, value in values.items()}


# value of `--tracker` -> the class, which takes the model folder
SERVICES: dict[str, Callable[[str], Mlflow | Wandb]] = {MLFLOW: Mlflow, WANDB: Wandb}
