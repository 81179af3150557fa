"""Runs of benchmarks as processes."""

import json
import pathlib
import shlex
import subprocess
import sys

from support import forked

ROOT = pathlib.Path(__file__).parents[2]


def run(name: str, *flags: object, process=forked.run) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", f"benchmarks.{name}", *map(str, flags)]
    return process(command, check=False, capture_output=True, text=True, cwd=ROOT)


def measured(name: str, *flags: object, results: pathlib.Path, process=forked.run) -> object:
    """Runs a benchmark that prints JSON; returns its result."""
    done = run(name, *flags, f"--results={results}", process=process)
    assert done.returncode == 0, done.stderr
    about = json.loads(done.stdout)
    assert about == json.loads(results.read_text())
    words = shlex.split(about["made_by"])
    assert words[:3] == ["python", "-m", f"benchmarks.{name}"] and str(flags[0]) in words
    return about["result"]
