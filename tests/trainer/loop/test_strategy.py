"""Devices that are asked for and can't be had: one sentence each."""

import json

import pytest

from beambert.pipelines.shared.errors import InputError
from beambert.trainer.loop.strategy import make_strategy

WORKERS = {"worker": ["localhost:1", "localhost:2"]}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('{"cluster": ', "must be a JSON object with a cluster and a task"),
        ("[]", "must be a JSON object with a cluster and a task"),
        ('{"cluster": 7}', "must be a JSON object with a cluster and a task"),
        (json.dumps({"cluster": WORKERS}), "its task is null"),
        (
            json.dumps({"cluster": WORKERS, "task": {"type": "worker", "index": 5}}),
            "cannot be used .*exceeds the maximum id",
        ),
        (
            json.dumps({"cluster": WORKERS, "task": {"type": "evaluator", "index": 0}}),
            '"evaluator".*; the type must be chief or worker',
        ),
    ],
)
def test_a_tf_config_that_names_no_worker_is_refused(config, message, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(InputError, match=f"TF_CONFIG.*{message}") as caught:
        make_strategy("auto")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "tpu"), [("auto", "local"), ("tpu", None)])
def test_a_tpu_that_is_not_there_is_refused(name, tpu):
    with pytest.raises(InputError, match="--tpu=local: cannot be used") as caught:
        make_strategy(name, tpu)
    assert "\n" not in str(caught.value)
