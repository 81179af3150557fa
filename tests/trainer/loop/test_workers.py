"""Workers of one training that find each other, and lose each other."""

import json
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import tensorflow as tf

from beambert.errors import InputError
from beambert.trainer.loop import strategy
from beambert.trainer.loop.strategy import make_strategy, raise_on_lost_worker, wait_for_answers

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
    with pytest.raises(kind), raise_on_lost_worker(one):
        raise error
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", type(one))
    with pytest.raises(InputError) as caught, raise_on_lost_worker(one):
        raise error
    assert str(caught.value) == (
        f"TF_CONFIG: another worker of the training is gone ({cause}); run the same command again "
        "for every worker, which continues"
    )
