"""gs:// through Beam, Google's client and TensorFlow, on an emulator."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest
from support import emulated_storage, forked
from support import growing_corpus as corpus

from beambert import folders, io
from beambert.deploy.retraining import command, workspace
from beambert.errors import InputError

ROOT = pathlib.Path(__file__).parents[3]


def test_an_upload_appears_when_it_is_complete(gs):
    """So it needs no temporary object, which a killed process could leave."""
    path = f"{gs}/cut/info.json"
    io.write_bytes(path, b"older")
    emulated_storage.requests_made()
    io.write_bytes(path, b"whole")
    assert [request.split()[0] for request in emulated_storage.requests_made()] == ["POST", "PUT"]
    with pytest.raises(KeyboardInterrupt), io.open_atomically(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert file.closed and io.list_folder(f"{gs}/cut") == ["info.json"]
    assert io.read_bytes(path) == b"whole"
    with (
        pytest.raises(InputError, match="403"),
        io.open_atomically(f"{gs}/forbidden/info.json") as file,
    ):
        file.write(b"whole")
    assert file.closed  # Otherwise it would be sent again when Python deletes it.


def test_a_bucket_without_permission(gs, tmp_path):
    with (
        pytest.raises(InputError, match="forbidden/LOCK: cannot be read and written .*403"),
        folders.lock_held(f"{gs}/forbidden/LOCK", "workspace"),
    ):
        pass
    with pytest.raises(InputError, match="forbidden/retrain.toml: cannot be read"):
        command.main([f"--config={gs}/forbidden/retrain.toml"])
    with pytest.raises(InputError, match="forbidden/run.json.*: cannot be written"):
        workspace.write_json(f"{gs}/forbidden/run.json", {})
    with pytest.raises(InputError, match="forbidden/runs: cannot be listed .*403"):
        workspace.read_history(f"{gs}/forbidden")  # it must not seem to be empty


RETRAIN = """
import sys
from beambert.deploy.retraining import command as retrain
from beambert import folders
folders.SECONDS_BETWEEN_RENEWALS = 0.2
retrain.main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_lock_that_is_lost_stops_the_run(gs, storage_environment, tmp_path):
    """And the real step that is at work; nothing of it counts."""
    corpus.make(tmp_path)
    text = corpus.write_config(tmp_path).read_text()
    workspace_there = f"{gs}/lost/workspace"
    config = tmp_path / "lost.toml"
    config.write_text(text.replace(f"{tmp_path}/workspace", workspace_there))
    run = forked.Popen(
        [sys.executable, "-c", RETRAIN, f"--config={config}"],
        cwd=ROOT,
        env=os.environ | storage_environment | {"CUDA_VISIBLE_DEVICES": "-1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for line in run.stdout:
        if line.startswith("[records] $"):
            break
    lock = f"{workspace_there}/LOCK"
    assert io.content_of(lock).startswith(f"process {run.pid} on ".encode())
    io.write_bytes(lock, b"thief")
    printed, _ = run.communicate(timeout=60)
    assert run.returncode == 128 + signal.SIGTERM, printed
    assert f"another command has taken the lock of {workspace_there}" in printed
    assert not workspace.is_done("records", workspace.read_history(workspace_there).open)
    assert io.content_of(lock) == b"thief"
