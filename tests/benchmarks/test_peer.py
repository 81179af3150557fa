"""Peers: what a stand-in for another system's interpreter sees, and what becomes of failures."""

import pathlib
import subprocess
import sys

import pytest

from beambert.errors import InputError
from benchmarks import peer

SCRIPTS = pathlib.Path(peer.__file__).with_name("peers")
# The protocol's own module is the real one; the system next to it is no more than a counter.
SYSTEM = """
import sys
sys.path.insert(0, {scripts!r})
from answering import answer
sys.argv = sys.argv[1:]
def prepare(asked):
    print("a system that talks")
    def work():
        print("at work")
        with open(asked["file"], "a") as file:
            file.write("x")
    return work
answer(prepare)
"""


@pytest.fixture
def interpreter(tmp_path):
    """Returns a function: code -> a program that runs it with the peer's arguments."""

    def make(code: str) -> str:
        path = tmp_path / "python"
        path.write_text(f"#!{sys.executable}\n{code}")
        path.chmod(0o755)
        return str(path)

    return make


def test_every_step_is_a_piece_of_work(interpreter, tmp_path, capfd):
    python = interpreter(SYSTEM.format(scripts=str(SCRIPTS)))
    counted = tmp_path / "counted"
    other = peer.Peer("hugging_face_pretraining.py", python, {"file": str(counted)})
    assert not counted.exists()
    other.step()
    other.step()
    assert counted.read_text() == "xx"
    other.end()
    printed, noise = capfd.readouterr()
    assert printed == ""
    assert "a system that talks" in noise


def test_a_peer_that_fails_names_itself(interpreter):
    with pytest.raises(InputError, match=r"python hugging_face_pretraining\.py: ended early"):
        peer.Peer("hugging_face_pretraining.py", interpreter("raise SystemExit(1)"), {})


def test_an_interpreter_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"none: cannot be run \(No such file"):
        peer.Peer("hugging_face_pretraining.py", str(tmp_path / "none"), {})


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*_*ing.py")), ids=lambda path: path.stem)
def test_a_peer_needs_nothing_of_this_project(script, tmp_path):
    """In a bare interpreter, what it misses first is another system's."""
    done = subprocess.run(
        [sys.executable, "-S", "-E", script, "{}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    missing = done.stderr.strip().splitlines()[-1]
    assert missing in (
        "ModuleNotFoundError: No module named " + repr(n) for n in ("numpy", "keras")
    )
    imports = [line.split()[1] for line in script.read_text().splitlines() if "import " in line]
    assert not {"beambert", "benchmarks"} & {name.split(".")[0] for name in imports}
