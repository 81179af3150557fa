"""The retraining with the real commands, as processes that are killed."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from support import forked
from support import growing_corpus as corpus

pytestmark = pytest.mark.release
ROOT = pathlib.Path(__file__).parents[3]


def start(root, popen=forked.Popen):
    return popen(
        [sys.executable, "-m", "beambert", "retrain", f"--config={root / 'retrain.toml'}"],
        cwd=ROOT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def retrain(root):
    process = start(root)
    printed, _ = process.communicate(timeout=600)
    return process.returncode, printed


def step_of(process) -> int:
    """Waits for the process of the step that a retraining has begun, and returns its number."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 30
    while not (found := children.read_text().split()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return int(found[0])


def versions(root):
    return sorted(path.name for path in (root / "workspace" / "serving").iterdir())


def test_new_file_to_new_version(tmp_path):
    """A first model that has learned nothing, killed and continued, a corrupt file, nothing new.

    `test_deliver` refuses a worse model, and `test_runs` decides what follows from that.
    """
    corpus.make(tmp_path)
    corpus.write_config(tmp_path, learning_rate=1e-9, more="least = 0.0\n")
    status, printed = retrain(tmp_path)
    assert status == 0, printed
    assert versions(tmp_path) == ["1"]

    corpus.write_config(tmp_path)
    corpus.deliver(tmp_path, 2)
    corpus.write_task(tmp_path, "train", 480)
    # A process of the usual kind, which is the parent of its step.
    process = start(tmp_path, subprocess.Popen)
    for line in process.stdout:
        if line.startswith("[classifier] $"):
            break
    # Its step, which holds the lock as well, is kept from ending.
    os.kill(step_of(process), signal.SIGSTOP)
    process.kill()
    process.wait()
    status, printed = retrain(tmp_path)
    assert status == 75 and "is at work there" in printed, printed
    os.killpg(process.pid, signal.SIGKILL)
    process.stdout.close()
    assert versions(tmp_path) == ["1"]
    status, printed = retrain(tmp_path)
    assert status == 0, printed
    assert "done already: records, encoder" in printed and "[records] $" not in printed
    assert versions(tmp_path) == ["1", "2"]

    corrupt = tmp_path / "text" / "3.jsonl"
    corrupt.write_text('{"text": "cut o')
    status, printed = retrain(tmp_path)
    assert status == 2 and "3.jsonl" in printed and "Traceback" not in printed
    assert versions(tmp_path) == ["1", "2"]

    corrupt.unlink()
    started = time.monotonic()
    status, printed = retrain(tmp_path)
    assert status == 0 and "nothing new" in printed
    assert time.monotonic() - started < 60
