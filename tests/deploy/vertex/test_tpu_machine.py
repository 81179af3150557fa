"""The script for TPU VMs, with stand-ins for gcloud and for what the machine has."""

import os
import pathlib
import subprocess

import pytest

from beambert.deploy.settings import Deployment, Release, Settings

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
COMMIT = "0123456789abcdef0123456789abcdef01234567"

# The machine is there once it was created; the command ends with the next of the statuses.
GCLOUD = """\
#!/usr/bin/env bash
cd "$(dirname "$0")"
[ "$1" = alpha ] && shift
echo "$*" >> lines
echo "$4" >> calls
case "$4" in
  create) touch machine ;;
  delete) rm -f machine ;;
  describe) [ -e machine ] && echo READY || exit 1 ;;
  ssh)
    printf '%s' "${@: -1}" > "command$(wc -l < calls)"
    status=$(head -1 statuses); sed -i 1d statuses
    [ "$status" = 255 ] && rm -f machine; exit "$status" ;;
esac
"""


def run_on_tpu_machine(folder, statuses):
    (folder / "gcloud").write_text(GCLOUD)
    (folder / "gcloud").chmod(0o755)
    (folder / "statuses").write_text("".join(f"{status}\n" for status in statuses))
    return subprocess.run(
        [DEPLOY / "vertex" / "tpu_vm.sh", "pretrain", "--data=gs://b/a b"],
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "PAUSE": "0", "COMMIT": COMMIT},
        capture_output=True,
        text=True,
        check=False,
    )


def test_tpu_machine_that_is_taken_back(tmp_path):
    """It is made again, gets the same command again, and is deleted in the end."""
    done = run_on_tpu_machine(tmp_path, [255, 0])
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text().split()
    assert calls.count("create") == 2 and calls[-1] == "delete"
    lines = (tmp_path / "lines").read_text().splitlines()
    for line in lines:  # The machine has no address that others reach.
        assert ("--internal-ips" in line) == (" create " in line)
        assert ("--tunnel-through-iap" in line) == (" ssh " in line)
    first, second = (path.read_text() for path in tmp_path.glob("command*"))
    assert first == second
    # The locks of the machine that is gone belong to the same job.
    assert "--env=CLOUD_ML_JOB_ID=beambert " in first


@pytest.mark.parametrize("status", [1, 2, 143])
def test_a_command_that_fails_on_a_tpu_machine_ends_it(tmp_path, status):
    done = run_on_tpu_machine(tmp_path, [status])
    assert done.returncode == status, done.stderr
    calls = (tmp_path / "calls").read_text().split()
    assert calls.count("ssh") == 1 and calls[-1] == "delete"


def test_machines_that_are_always_taken_back(tmp_path):
    done = run_on_tpu_machine(tmp_path, [255] * 30)
    assert done.returncode == 255
    assert done.stderr.splitlines()[-1].startswith("no TPU VM lasted long enough in 20 tries")
    assert (tmp_path / "calls").read_text().split()[-1] == "delete"


# What the machine has: the metadata server answers as Google's, and docker tells what it was given.
MACHINE = {
    "curl": """#!/bin/sh
echo '{"access_token":"ya29.a-b_c","expires_in":3599,"token_type":"Bearer"}'
""",
    "sudo": """#!/bin/sh
exec "$@"
""",
    "docker": """#!/bin/sh
if [ "$1" = login ]; then cat > password; exit 0; fi
printf '%s\\n' "$@" > arguments
exit 3
""",
}


def test_command_on_the_tpu_machine(tmp_path):
    """It is the trainer's image that runs, with the arguments as they were given."""
    run_on_tpu_machine(tmp_path, [0])
    (command,) = tmp_path.glob("command*")
    for name, text in MACHINE.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", f"cd {tmp_path} && {command.read_text().removeprefix('--command=')}"],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=False,
    )
    assert done.returncode == 3
    assert (tmp_path / "password").read_text().strip() == "ya29.a-b_c"
    arguments = (tmp_path / "arguments").read_text().splitlines()
    image = Deployment(Settings.read(), Release(COMMIT)).image("trainer-tpu")
    assert arguments[arguments.index(image) :] == [image, "pretrain", "--data=gs://b/a b"]
    assert "--privileged" in arguments


def test_tpu_machine_whose_command_must_be_mended(tmp_path):
    assert run_on_tpu_machine(tmp_path, [2]).returncode == 2
    assert (tmp_path / "calls").read_text().split()[-1] == "delete"
