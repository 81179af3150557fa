"""Pre-training as processes: one that is killed, and several that train as one."""

import dataclasses
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

import pytest
from support import forked, small_finetuning, small_pretraining, untrained_models

pytestmark = pytest.mark.release
ROOT = pathlib.Path(__file__).resolve().parents[3]


def start(data, config, model_dir, *more: str, **environment: str) -> forked.Popen:
    """The command in a process of its own."""
    command = [
        *(sys.executable, "-m", "beambert", "pretrain"),
        *(f"--data={data}", f"--model={config}", f"--model_dir={model_dir}"),
        *("--num_train_steps=60", "--train_batch_size=8", "--learning_rate=0.003"),
        *("--save_checkpoints_steps=3", "--eval_steps=30", *more),
    ]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"} | environment
    return forked.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def finish(*processes: forked.Popen) -> str:
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output
    return outputs[0]


def wait_for(checkpoint: pathlib.Path, process) -> None:
    """Waits until a process has written a checkpoint."""
    deadline = time.monotonic() + 200
    while not checkpoint.exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)


def test_killed_at_any_moment_the_same_command_continues(
    records_folder, small_config_file, tmp_path
):
    whole = start(records_folder, small_config_file, tmp_path / "whole")
    killed = start(records_folder, small_config_file, tmp_path / "killed")
    wait_for(tmp_path / "killed/checkpoints/ckpt-000006", killed)
    killed.kill()
    killed.communicate()
    assert not (tmp_path / "killed" / "_SUCCESS").exists()
    again = start(records_folder, small_config_file, tmp_path / "killed")
    finish(whole)
    assert "continuing from step" in finish(again)
    small_pretraining.assert_same_weights(tmp_path / "killed", tmp_path / "whole")
    lines = (tmp_path / "killed" / "metrics.jsonl").read_text().splitlines()
    rows = [(row["split"], row["step"]) for row in map(json.loads, lines)]
    assert len(rows) == len(set(rows))


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports


def start_two(data, config, *model_dirs) -> list[forked.Popen]:
    """The command as two workers, of which the first is the chief."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    tasks = [{"cluster": cluster, "task": {"type": "worker", "index": i}} for i in range(2)]
    return [
        start(data, config, model_dir, TF_CONFIG=json.dumps(task))
        for model_dir, task in zip(model_dirs, tasks, strict=True)
    ]


@pytest.fixture(scope="module")
def two_undisturbed(records_folder, small_config_file, tmp_path_factory) -> pathlib.Path:
    """The folder of a pair that trained to its end."""
    folder = tmp_path_factory.mktemp("pair") / "undisturbed"
    finish(*start_two(records_folder, small_config_file, folder, folder))
    return folder


@pytest.mark.parametrize("lost", [[0], [1], [0, 1]], ids=["chief", "worker", "both"])
def test_a_pair_that_loses_a_worker_ends_and_continues_to_the_same_bits(
    lost, two_undisturbed, records_folder, small_config_file, tmp_path
):
    folder = tmp_path / "pair"
    workers = start_two(records_folder, small_config_file, folder, folder)
    step = 3 * random.Random(str(lost)).randint(1, 10)
    wait_for(folder / "checkpoints" / f"ckpt-{step:06d}", workers[0])
    for index in lost:
        workers[index].kill()
    for index, worker in enumerate(workers):
        output, _ = worker.communicate(timeout=60)
        if index not in lost:
            assert worker.returncode == 2, output
            assert "Traceback" not in output
            sentence = output.splitlines()[-1]
            assert "TF_CONFIG: another worker of the training is gone (" in sentence
            assert sentence.endswith("same command again for every worker, which continues")
    assert not (folder / "_SUCCESS").exists()
    assert "continuing from step" in finish(
        *start_two(records_folder, small_config_file, folder, folder)
    )
    small_pretraining.assert_same_weights(folder, two_undisturbed)


def test_a_pair_that_stands_still_in_one_worker_ends(records_folder, small_config_file, tmp_path):
    """As one whose network is cut: nothing tells the other but the missing heartbeats."""
    folder = tmp_path / "pair"
    workers = start_two(records_folder, small_config_file, folder, folder)
    wait_for(folder / "checkpoints" / "ckpt-000003", workers[0])
    os.kill(workers[1].pid, signal.SIGSTOP)
    output, _ = workers[0].communicate(timeout=60)
    workers[1].kill()
    assert workers[0].returncode == 2, output
    assert "another worker of the training is gone (" in output.splitlines()[-1]


def test_two_workers_train_like_one(records_folder, small_config, tmp_path):
    config = dataclasses.replace(
        small_config, hidden_dropout_prob=0, attention_probs_dropout_prob=0
    )
    config_file = tmp_path / "bert_config.json"
    config_file.write_text(config.to_json())
    finish(start(records_folder, config_file, tmp_path / "one"))
    finish(*start_two(records_folder, config_file, tmp_path / "two", tmp_path / "two"))
    small_pretraining.assert_same_weights(tmp_path / "one", tmp_path / "two", tolerance=2e-3)
    results = [json.loads((tmp_path / n / "results.json").read_text()) for n in ("one", "two")]
    assert results[0] == pytest.approx(results[1], rel=1e-2)


def test_workers_that_share_no_folder_do_not_go_on(records_folder, small_config_file, tmp_path):
    """Only the first one would go on from the checkpoint."""
    finish(start(records_folder, small_config_file, tmp_path / "first"))
    (tmp_path / "first" / "_SUCCESS").rename(tmp_path / "first" / "_UNFINISHED")
    (tmp_path / "second").mkdir()
    workers = start_two(records_folder, small_config_file, tmp_path / "first", tmp_path / "second")
    for worker in workers:
        output, _ = worker.communicate(timeout=300)
        assert worker.returncode == 2, output
        assert "the workers found checkpoints of different steps (0, 60)" in output


def start_hosts_of_jax(*arguments: str) -> list[subprocess.Popen]:
    """The command on two hosts; the variables alone select the engine."""
    cluster = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{free_ports(1)[0]}", "JAX_NUM_PROCESSES": "2"}
    cluster |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    environment = os.environ | cluster
    environment.pop("KERAS_BACKEND", None)
    return [
        subprocess.Popen(
            [sys.executable, "-m", "beambert", *arguments],
            env=environment | {"JAX_PROCESS_ID": str(host)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for host in range(2)
    ]


@pytest.mark.parametrize("command", ["pretrain", "finetune"])
def test_hosts_of_jax_that_lose_one_end_and_continue_to_the_same_bits(
    command, records_folder, small_config_file, vocabulary, tmp_path
):
    pytest.importorskip("jax")
    if command == "pretrain":
        given = small_pretraining.flags(records_folder, small_config_file, "", num_train_steps=60)
    else:
        encoder = untrained_models.save_encoder(tmp_path / "encoder", vocabulary)
        task = small_finetuning.write_task(tmp_path / "task", pairs=True)
        lengths = {"max_seq_length": 16, "num_train_epochs": 4, "save_checkpoints_steps": 3}
        given = small_finetuning.flags(task, encoder, "", **lengths)
    whole, killed = ([*given, f"--model_dir={tmp_path / name}"] for name in ("whole", "killed"))
    finish(*start_hosts_of_jax(command, *whole))
    hosts = start_hosts_of_jax(command, *killed)
    wait_for(tmp_path / "killed" / "checkpoints" / "ckpt-000006", hosts[0])
    hosts[1].kill()
    output, _ = hosts[0].communicate(timeout=100)
    assert hosts[0].returncode == 2, output
    assert "JAX_COORDINATOR_ADDRESS: another host of the training is gone (" in output
    assert "continuing from step" in finish(*start_hosts_of_jax(command, *killed))
    small_pretraining.assert_same_weights(tmp_path / "killed", tmp_path / "whole")
