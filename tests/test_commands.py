"""The console command, as a user types it."""

import pathlib
import subprocess
import sys
import time

import pytest

from beambert import COMMANDS

ROOT = pathlib.Path(__file__).parents[1]


def beambert(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "beambert", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_every_command(arguments):
    run = beambert(*arguments)
    assert (run.returncode, run.stderr) == (0, "")
    for name in ("vocab", "data", "pretrain", "finetune", "evaluate", "export", "demo"):
        assert f"\n  {name} " in run.stdout


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_of_a_command(command):
    """Fast, as nothing heavy is imported for it, and with an example to copy."""
    started = time.monotonic()
    run = beambert(command, "--help")
    seconds = time.monotonic() - started
    assert (run.returncode, run.stderr) == (0, "")
    assert f"beambert {command} --" in run.stdout
    assert seconds < 2


def test_unknown_command():
    run = beambert("dta", "--input=x")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.count("\n") == 1 and "dta" in run.stderr
