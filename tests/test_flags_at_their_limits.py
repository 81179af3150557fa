"""No flag, whatever its value, makes a command print a traceback: one sentence, and status 2."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from support import flags_at_their_limits

from beambert.commands import COMMANDS

TESTS = pathlib.Path(__file__).parent


def run(mode):
    """Runs all commands in one new process, into which nothing large has been loaded."""
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    found = subprocess.run(
        [sys.executable, "-m", "support.flags_at_their_limits", mode],
        cwd=TESTS,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    *wrong, count = found.stdout.splitlines()
    assert wrong == []
    flags = sum(len(command.build_parser().flags) for command in COMMANDS.values())
    assert int(re.match(r"(\d+) command lines", count)[1]) >= 8 * flags


@pytest.mark.slow
def test_before_anything_large_is_loaded():
    run("light")


@pytest.mark.slow
def test_until_the_work_begins():
    run("whole")


def test_what_counts_as_refused():
    refused = flags_at_their_limits.is_refused
    assert refused("data", 2, "beambert data: --output=: is empty; name a folder\n")
    assert not refused("data", 1, "beambert data: --output=: is empty; name a folder\n")
    assert not refused("data", 2, "beambert data: one\nbeambert data: two\n")
    assert not refused("data", 2, "Traceback (most recent call last):\n")
