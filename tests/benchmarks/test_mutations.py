"""The mutation run at its smallest size."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_thing_changes_at_a_time():
    """Each operator, comparison, number, boolean and condition, and nothing else."""
    source = "def f(a: int = 1):\n    'x'\n    if a and True:\n        return a < 2 - a"
    code = "import sys, benchmarks.mutations as m, ast\n"
    code += "for x in m.mutations_of(sys.argv[1]): print(repr((x.line, ast.unparse(x.tree))))"
    found = [ast.literal_eval(line) for line in run("-c", code, source).splitlines()]
    expected = {
        (1, "a: int=1", "a: int=2"),
        (3, "a and True", "not (a and True)"),
        (3, "a and True", "a or True"),
        (3, "a and True", "a and False"),
        (4, "a < 2", "a <= 2"),
        (4, "a < 2", "a >= 2"),
        (4, "2 - a", "3 - a"),
        (4, "2 - a", "2 + a"),
    }
    plain = ast.unparse(ast.parse(source))
    assert set(found) == {(line, plain.replace(old, new)) for line, old, new in expected}
    assert len(found) == len(expected)


@pytest.mark.release
def test_a_run():
    """Two changes to a small module, both noticed; its file stays as it is."""
    path = ROOT / "pipelines" / "corpus" / "gutenberg.py"
    before = path.read_bytes()
    printed = run("-m", "benchmarks.mutations", "--modules=corpus/gutenberg", "--sample=2")
    assert printed.endswith("all: 2 of 2 noticed, 100.0%\n")
    assert path.read_bytes() == before
