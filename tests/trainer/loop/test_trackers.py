"""The trackers of a training: the same metrics for all, one run however often it is continued."""

import json
import sys
import threading

import pytest
import tensorflow as tf
from support import tracker_libraries
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from beambert.errors import InputError
from beambert.trainer.loop import trackers
from beambert.trainer.loop.config import TRACKERS, LoopConfig, TrainingFolders
from beambert.trainer.loop.trackers import TrainingLog, rows_of

CONFIGURATION = {"kind": "pretraining", "loop": {"dtype": "float32"}, "data": ["/records"]}
LOGGED = [
    (2, "train", {"loss": 1.23456789, "masked_lm_accuracy": 0.25}),
    (2, "eval", {"loss": 1.5}),
    (4, "train", {"loss": 1.0, "masked_lm_accuracy": 0.5}),
]


def train(folder, service, step=0, logged=LOGGED, error=None):
    """Logs as a training does, from a step on."""
    log = TrainingLog(TrainingFolders(str(folder)), service)
    log.start(CONFIGURATION, step)
    with log:
        for row in logged:
            if row[0] > step:
                log.log(*row)
        log.save()
        if error:
            raise error


@pytest.fixture
def calls(monkeypatch):
    return tracker_libraries.install(monkeypatch)


def test_mlflow_gets_settings_and_metrics(calls, tmp_path, monkeypatch):
    train(tmp_path / "encoder", "mlflow")
    settings = {"kind": "pretraining", "loop.dtype": "float32", "data": "['/records']"}
    metrics = [
        [("train/loss", 1.23457, 2), ("train/masked_lm_accuracy", 0.25, 2)],
        [("eval/loss", 1.5, 2)],
        [("train/loss", 1.0, 4), ("train/masked_lm_accuracy", 0.5, 4)],
    ]
    assert calls == [
        ("create_experiment", "beambert"),
        ("create_run", "7", "encoder"),
        ("log_batch", "run-1", [], settings),
        *(
            ("log_batch", "run-1", [{"key": k, "value": v, "step": s} for k, v, s in row], {})
            for row in metrics
        ),
        ("set_terminated", "run-1", "FINISHED"),
    ]
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "12")
    train(tmp_path / "second", "mlflow")
    assert ("create_run", "12", "second") in calls


def test_wandb_gets_settings_and_metrics(calls, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_PROJECT", "law")
    hook = sys.excepthook
    train(tmp_path / "encoder", "wandb")
    assert calls == [
        ("init", "law", "encoder", None, CONFIGURATION, "allow"),
        ("log", "run-2", {"train/loss": 1.23457, "train/masked_lm_accuracy": 0.25}, 2),
        ("log", "run-2", {"eval/loss": 1.5}, 2),
        ("log", "run-2", {"train/loss": 1.0, "train/masked_lm_accuracy": 0.5}, 4),
        ("finish", "run-2", 0),
    ]
    assert sys.excepthook is hook


@pytest.mark.parametrize("service", TRACKERS)
def test_a_continued_training_is_the_same_run(service, calls, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, service, logged=LOGGED[:2], error=KeyboardInterrupt())
    ended = {"mlflow": ("set_terminated", "run-1", "KILLED"), "wandb": ("finish", "run-2", 1)}
    assert calls[-1] == ended[service]
    calls.clear()
    train(tmp_path, service, step=2)
    begun = {
        "mlflow": ("update_run", "run-1", "RUNNING"),
        "wandb": ("init", "beambert", tmp_path.name, "run-2", CONFIGURATION, "allow"),
    }
    assert calls[0] == begun[service]
    assert len(calls) == 3 and calls[1][1] == calls[0][1 if service == "mlflow" else 3]
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(row["split"], row["step"]) for row in rows] == [
        ("train", 2),
        ("eval", 2),
        ("train", 4),
    ]


@pytest.mark.parametrize("method", ["create_run", "log_batch", "set_terminated"])
def test_a_service_that_fails_ends_no_training(method, calls, tmp_path, capsys, monkeypatch):
    def fail(*_, **__):
        calls.append("failed")
        raise ConnectionError("no route to host\nand a traceback")

    monkeypatch.setattr(tracker_libraries.MlflowClient, method, fail)
    train(tmp_path, "mlflow")
    said = "--tracker=mlflow: no route to host; the training goes on without it\n"
    assert capsys.readouterr().out == said
    assert calls.count("failed") == 1 and calls[-1] == "failed"
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 3


def test_a_service_that_does_not_answer_holds_up_no_training(tmp_path, capsys, monkeypatch):
    answers = threading.Event()
    monkeypatch.setattr(
        tracker_libraries.MlflowClient, "log_batch", lambda *_, **__: answers.wait()
    )
    monkeypatch.setattr(trackers, "SECONDS_TO_FINISH", 0.05)
    tracker_libraries.install(monkeypatch)
    train(tmp_path, "mlflow")
    said = "--tracker=mlflow: does not answer, so the last metrics are missing there\n"
    assert capsys.readouterr().out == said
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 3
    answers.set()


def test_an_unknown_or_missing_service_is_refused(monkeypatch, tmp_path):
    with pytest.raises(InputError, match="--tracker=comet: must be one of"):
        LoopConfig(8, tracker="comet")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    (tmp_path / "wandb").mkdir()  # the library itself makes such a folder
    with pytest.raises(InputError, match=r"wandb: is not installed; run pip install -e '\.\["):
        LoopConfig(8, tracker="wandb")


def test_a_real_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    train(tmp_path / "encoder", "mlflow", logged=LOGGED[:2])
    train(tmp_path / "encoder", "mlflow", step=2)
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("beambert")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.status, run.info.run_name) == ("FINISHED", "encoder")
    assert run.data.params["loop.dtype"] == "float32"
    history = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(each.step, each.value) for each in history] == [(2, 1.23457), (4, 1.0)]
    assert mlflow.active_run() is None


@pytest.mark.parametrize(
    "line", ["[1]", '{"step": 2, "split": 3}', '{"split": "eval"}', '{"split": "eval", "st']
)
def test_lines_end_at_a_damaged_one(line):
    good = '{"split": "train", "step": 1, "loss": 2.5}'
    assert rows_of(f"{good}\n{line}\n{good}\n".encode()) == [json.loads(good)]


def test_tensorboard_reads_the_events_of_a_training(tmp_path):
    with TrainingLog(TrainingFolders(str(tmp_path)), None) as log:
        log.start({}, 0)
        for step, loss in ((10, 3.5), (20, 2.25)):
            log.log(step, "train", {"loss": loss})
        log.save()
    events = EventAccumulator(str(tmp_path / "tensorboard" / "train")).Reload()
    scalars = [(e.step, float(tf.make_ndarray(e.tensor_proto))) for e in events.Tensors("loss")]
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert scalars == [(row["step"], row["loss"]) for row in rows] == [(10, 3.5), (20, 2.25)]
