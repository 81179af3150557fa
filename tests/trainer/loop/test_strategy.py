"""Devices that are asked for and can't be had: one sentence each."""

import json
from urllib.error import URLError

import pytest
import tensorflow as tf

from beambert.errors import InputError
from beambert.trainer.loop import strategy
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
            "cannot be used .*index 5 in job 'worker'",
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
    flag = f"--tpu={tpu}" if tpu else "--strategy=tpu"
    with pytest.raises(InputError) as caught:
        make_strategy(name, tpu)
    advice = "leave the flag out, or run it on a TPU VM"
    assert str(caught.value) == f"{flag}: this machine has no TPU; {advice}"


def test_a_tpu_whose_name_cannot_be_looked_up_is_refused(monkeypatch):
    """As on a machine outside of Google Cloud, which has no server of metadata."""

    def resolve(tpu):
        raise URLError("Name or service not known")

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", resolve)
    with pytest.raises(InputError, match="--tpu=mine: cannot be used .*not known.*check the name"):
        make_strategy("auto", "mine")


class FakeGpus:
    """GPUs of some compute capabilities, as TensorFlow describes them."""

    def __init__(self, monkeypatch, *capabilities: tuple[int, int]):
        self.growing: list[str] = []
        names = [f"GPU:{number}" for number in range(len(capabilities))]
        details = {
            name: {"device_name": "NVIDIA A100", "compute_capability": capability}
            for name, capability in zip(names, capabilities, strict=True)
        }
        experimental = tf.config.experimental
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: names)
        monkeypatch.setattr(experimental, "get_device_details", details.get)
        monkeypatch.setattr(experimental, "set_memory_growth", self._grow)

    def _grow(self, gpu: str, is_on: bool) -> None:
        assert is_on
        self.growing.append(gpu)


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ([], "float32"),
        ([(7, 5)], "float32"),
        ([(8, 0)], "bfloat16"),
        ([(9, 0), (7, 0)], "float32"),
    ],
)
def test_auto_takes_bfloat16_where_all_gpus_have_it(monkeypatch, capabilities, expected):
    FakeGpus(monkeypatch, *capabilities)
    one = tf.distribute.get_strategy()
    assert strategy.resolve_dtype("auto", one) == expected
    assert strategy.resolve_dtype("float32", one) == "float32"


def test_auto_takes_bfloat16_on_a_tpu(monkeypatch):
    one = tf.distribute.get_strategy()
    monkeypatch.setattr(tf.distribute, "TPUStrategy", type(one))
    assert strategy.resolve_dtype("auto", one) == "bfloat16"
    assert strategy.describe_devices(one) == "1 device (TPU)"


def test_a_gpu_gives_its_memory_as_it_is_needed(monkeypatch):
    gpus = FakeGpus(monkeypatch, (8, 0))
    one = strategy.make_strategy("auto")
    assert gpus.growing == ["GPU:0"]
    assert strategy.describe_devices(one) == "1 device (NVIDIA A100)"


def test_a_processor_is_named():
    assert strategy.describe_devices(tf.distribute.get_strategy()) == "1 device (CPU)"
