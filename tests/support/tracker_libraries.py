"""Stand-ins for the libraries of trackers, with the signatures that the real ones have.

They are those of mlflow-skinny 3.17 and wandb 0.31. They keep what they are given in `CALLS`.
"""

import sys
import types

CALLS: list[tuple] = []


class MlflowClient:
    """The methods of mlflow.MlflowClient that a training needs."""

    def get_experiment_by_name(self, name):
        return None

    def create_experiment(self, name, artifact_location=None, tags=None):
        CALLS.append(("create_experiment", name))
        return "7"

    def create_run(self, experiment_id, start_time=None, tags=None, run_name=None):
        CALLS.append(("create_run", experiment_id, run_name))
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="run-1"))

    def update_run(self, run_id, status=None, name=None):
        CALLS.append(("update_run", run_id, status))

    def log_batch(self, run_id, metrics=(), params=(), tags=(), synchronous=None):
        CALLS.append(("log_batch", run_id, list(metrics), dict(params)))

    def set_terminated(self, run_id, status=None, end_time=None):
        CALLS.append(("set_terminated", run_id, status))


def _metric(key, value, timestamp, step):
    return {"key": key, "value": value, "step": step}


class _Run:
    """A wandb.Run."""

    def __init__(self, id):
        self.id = id or "run-2"

    def log(self, data, step=None, commit=None):
        CALLS.append(("log", self.id, data, step))

    def finish(self, exit_code=None):
        CALLS.append(("finish", self.id, exit_code))


def _init(
    *,
    project=None,
    name=None,
    id=None,
    config=None,
    allow_val_change=None,
    reinit=None,
    resume=None,
):
    CALLS.append(("init", project, name, id, config, resume))
    sys.excepthook = lambda *_: None  # as the real one does
    return _Run(id)


def install(monkeypatch) -> list[tuple]:
    """Puts the stand-ins in the place of the libraries, and returns the list of calls."""
    CALLS.clear()
    entities = types.SimpleNamespace(Metric=_metric, Param=lambda key, value: (key, value))
    for name, content in {
        "mlflow": {"MlflowClient": MlflowClient, "entities": entities},
        "mlflow.entities": vars(entities),
        "wandb": {"init": _init},
    }.items():
        module = types.ModuleType(name)
        module.__dict__.update(content)
        module.__spec__ = types.SimpleNamespace(name=name, origin=__file__)  # find_spec asks for it
        monkeypatch.setitem(sys.modules, name, module)
    return CALLS
