"""What is loaded before the page is there. The first tab shall be seen soon."""

import pathlib
import socket
import subprocess
import sys

import pytest
from packaging.requirements import Requirement

from beambert.explore import playgrounds
from beambert.explore.instances import PAPER
from beambert.explore.material import Material

OPENED = """
import sys
from beambert import process
from beambert.explore.material import Material
from beambert.explore.command import open_page
vocab_file, port = sys.argv[1:]
process.install()
print(open_page(Material(vocab_file=vocab_file), "127.0.0.1", int(port)))
print(*sys.modules)
"""


def run_python(code, *arguments, **more) -> str:
    arguments = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(arguments, capture_output=True, text=True, check=True, **more).stdout


def test_masks_are_shown_before_the_model_is_loaded(folders):
    material = Material(models=[str(folders / "encoder")])
    assert not material.is_loaded("encoder") and material.is_loaded("no model")
    shown = playgrounds.show_masking(material, "encoder", "the river", PAPER, has_answers=False)
    assert "to predict of" in shown and "as soon as it is loaded" in shown
    assert not material.is_loaded("encoder")
    shown = playgrounds.show_masking(material, "encoder", "the river", PAPER)
    assert "mean loss" in shown and material.is_loaded("encoder")


@pytest.mark.explore
def test_the_page_is_there_before_the_large_libraries(folders):
    pytest.importorskip("gradio", reason="Gradio is not installed: make explore")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shown = run_python(OPENED, folders / "records" / "vocab.txt", port)
    assert shown.startswith(f"http://127.0.0.1:{port}")
    loaded = set(shown.split())
    assert "gradio" in loaded
    assert not {"tensorflow", "keras", "apache_beam"} & loaded


def test_the_constraints_of_the_lock_keep_their_conditions():
    """A package may stand there twice, for different Pythons."""
    root = pathlib.Path(__file__).parents[2]
    line = next(line for line in (root / "Makefile").read_text().split("\n") if "\tsed -nE" in line)
    command = line.strip().replace("$$", "$").partition(" >")[0]
    made = subprocess.run(command, shell=True, cwd=root, capture_output=True, text=True, check=True)
    found = [Requirement(line) for line in made.stdout.splitlines()]
    holding = [one.name for one in found if one.marker is None or one.marker.evaluate()]
    assert len(holding) == len(set(holding)) and "tensorflow" in holding
