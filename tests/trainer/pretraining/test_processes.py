"""Pre-training as processes: one that is killed, and several that train as one."""

import dataclasses
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from support import forked

from beambert.model.pretrainer import BertPretrainer

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).resolve().parents[3]


def start(data, config, model_dir, *more: str, **environment: str) -> forked.Popen:
    """The command in a process of its own."""
    command = [
        *(sys.executable, "-m", "beambert.trainer.task", "pretrain"),
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


def weights_of(folder, config) -> list[np.ndarray]:
    model = BertPretrainer(config)
    model.load_weights(folder / "model.weights.h5")
    return model.get_weights()


def test_killed_at_any_moment_the_same_command_continues(
    records_folder, small_config, small_config_file, tmp_path
):
    whole = start(records_folder, small_config_file, tmp_path / "whole")
    killed = start(records_folder, small_config_file, tmp_path / "killed")
    deadline = time.monotonic() + 200
    while not list((tmp_path / "killed").glob("checkpoints/ckpt-6.index")):
        assert time.monotonic() < deadline and killed.poll() is None
        time.sleep(0.01)
    killed.kill()
    killed.communicate()
    assert not (tmp_path / "killed" / "_SUCCESS").exists()
    again = start(records_folder, small_config_file, tmp_path / "killed")
    finish(whole)
    assert "continuing from step" in finish(again)
    for mine, theirs in zip(
        weights_of(tmp_path / "killed", small_config),
        weights_of(tmp_path / "whole", small_config),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)
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
    """The command as two workers."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    tasks = [{"cluster": cluster, "task": {"type": "worker", "index": i}} for i in range(2)]
    return [
        start(data, config, model_dir, TF_CONFIG=json.dumps(task))
        for model_dir, task in zip(model_dirs, tasks, strict=True)
    ]


def test_two_workers_train_like_one(records_folder, small_config, tmp_path):
    config = dataclasses.replace(
        small_config, hidden_dropout_prob=0, attention_probs_dropout_prob=0
    )
    config_file = tmp_path / "bert_config.json"
    config_file.write_text(config.to_json())
    finish(start(records_folder, config_file, tmp_path / "one"))
    finish(*start_two(records_folder, config_file, tmp_path / "two", tmp_path / "two"))
    for one, two in zip(
        weights_of(tmp_path / "one", config), weights_of(tmp_path / "two", config), strict=True
    ):
        np.testing.assert_allclose(one, two, atol=2e-3)
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
