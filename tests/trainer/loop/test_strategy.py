"""Devices and clusters."""

import json
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import tensorflow as tf

from beambert.errors import InputError
from beambert.trainer.loop import strategy
from beambert.trainer.loop.engines.tensorflow import TensorFlow
from beambert.trainer.loop.strategy import make_strategy, wait_for_answers

WORKERS = {"worker": ["localhost:1", "localhost:2"]}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("[]", "must be a JSON object with a cluster and a task"),
        (json.dumps({"cluster": WORKERS}), "its task is null"),
        (
            json.dumps({"cluster": WORKERS, "task": {"type": "worker", "index": 5}}),
            "cannot be used .*index 5 in job 'worker'",
        ),
    ],
)
def test_a_tf_config_that_names_no_worker_is_refused(config, message, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(InputError, match=f"TF_CONFIG.*{message}") as caught:
        make_strategy("auto")
    assert "\n" not in str(caught.value)


def test_a_tpu_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="--strategy=tpu: this machine has no TPU; .* a TPU VM"):
        make_strategy("tpu")


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
    assert TensorFlow(one).resolve_dtype("auto") == expected
    assert TensorFlow(one).resolve_dtype("float32") == "float32"


def test_auto_takes_bfloat16_on_a_tpu(monkeypatch):
    one = tf.distribute.get_strategy()
    monkeypatch.setattr(tf.distribute, "TPUStrategy", type(one))
    assert TensorFlow(one).resolve_dtype("auto") == "bfloat16"
    assert TensorFlow(one).describe_devices() == "1 device (TPU)"


def test_a_gpu_gives_its_memory_as_it_is_needed(monkeypatch):
    gpus = FakeGpus(monkeypatch, (8, 0))
    one = strategy.make_strategy("auto")
    assert gpus.growing == ["GPU:0"]
    assert TensorFlow(one).describe_devices() == "1 device (NVIDIA A100)"


SOON = 0.2 / 60  # minutes


@pytest.fixture
def closed_address():
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"127.0.0.1:{port}"


def test_a_leader_whom_nobody_started_is_named(closed_address, monkeypatch):
    """TensorFlow isn't asked: it would wait for an hour, without taking Ctrl-C."""
    monkeypatch.setattr(strategy.wait_for_answers, "__defaults__", (SOON,))
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", None)
    cluster = {"worker": [closed_address, "127.0.0.1:2"]}
    config = {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(InputError, match=f"TF_CONFIG: no worker has answered at {closed_address} "):
        make_strategy("auto")


def test_a_server_that_is_no_worker_is_no_answer():
    """As one of another program, or of a worker that stands still."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match=f"{address} .*fix the address"):
            wait_for_answers([address], SOON)


def test_the_wait_ends_with_the_answers():
    with ThreadPoolExecutor() as pool:
        server = grpc.server(pool)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        wait_for_answers([f"127.0.0.1:{port}"] * 2, 1)
        server.stop(None)


def test_sigterm_is_pythons_again():
    """TensorFlow's handler is known to the system alone, so only a signal shows whose it is."""
    received = []
    before = signal.signal(signal.SIGTERM, lambda *_: received.append(1))
    try:
        strategy._take_back_sigterm()
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [1]


# As TensorFlow 2.21 worded them when one of two workers got SIGKILL or SIGSTOP.
_KILLED = """Graph execution error:

Detected at node CollectiveReduceV2 defined at (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main

Collective ops is aborted by: recvmsg:Connection reset by peer
Additional GRPC error information from remote target /job:worker/replica:0/task:0:
The error could be from a previous operation. Restart your program to reset.
\t [[{{node while/CollectiveReduceV2}}]] [Op:__inference__train_steps_4664]"""
_STOPPED = "Collective ops is aborted by: Deadline Exceeded\n\nRPC: /tensorflow.Coordination"


@pytest.mark.parametrize(
    ("kind", "text", "cause"),
    [
        (tf.errors.UnavailableError, _KILLED, "recvmsg:Connection reset by peer"),
        (tf.errors.DeadlineExceededError, _STOPPED, "Deadline Exceeded"),
        (tf.errors.AbortedError, "Socket closed", "Socket closed"),
    ],
)
def test_a_worker_that_is_gone_is_told(kind, text, cause, monkeypatch):
    one = tf.distribute.get_strategy()
    error = kind(None, None, text)
    with pytest.raises(kind), TensorFlow(one).translate_errors():
        raise error
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", type(one))
    with pytest.raises(InputError) as caught, TensorFlow(one).translate_errors():
        raise error
    assert str(caught.value) == (
        f"TF_CONFIG: another worker of the training is gone ({cause}); run the same command again "
        "for every worker, which continues"
    )
