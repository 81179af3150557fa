"""A wheel and an sdist install a BeamBERT that works, and nothing beside `beambert`."""

import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
OFFLINE = ("--no-deps", "--no-build-isolation")
# Names of our folders; as files of a user's own they would be found first.
HOSTILE = ("model", "pipelines", "trainer", "deploy", "demo", "explore")
WHERE = """
import beambert.deploy, beambert.demo, beambert.explore, beambert.model, beambert.pipelines
import beambert.embedding, beambert.trainer.commands.pretrain
import sys
for name, module in sys.modules.items():
    if name.startswith("beambert") and module.__file__:
        print(module.__file__)
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> pathlib.Path:
    """A copy of the repository, as a build leaves files behind."""
    copy = tmp_path_factory.mktemp("packaging") / "source"
    left_out = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT, copy, ignore=left_out, symlinks=True)
    return copy


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def installed(request, source, tmp_path_factory) -> pathlib.Path:
    """A folder that holds an installation of nothing but BeamBERT."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "wheel":
        subprocess.run([*PIP, "wheel", *OFFLINE, f"-w{folder / 'dist'}", str(source)], check=True)
    else:
        build = [sys.executable, "setup.py", "-q", "sdist", f"--dist-dir={folder / 'dist'}"]
        subprocess.run(build, cwd=source, check=True)
    (archive,) = (folder / "dist").iterdir()
    target = folder / "site"
    subprocess.run([*PIP, "install", *OFFLINE, f"--target={target}", str(archive)], check=True)
    return target


def run_hostile(installed: pathlib.Path, folder: pathlib.Path, *command: str) -> str:
    """Runs a command among files that have the names of our folders; returns what it prints."""
    for name in HOSTILE:
        (folder / f"{name}.py").write_text("raise SystemExit('a file of the user was imported')\n")
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_stands_beside_the_package(installed):
    names = {path.name for path in installed.iterdir()}
    assert "beambert" in names
    rest = {name for name in names if not name.endswith(".dist-info")}
    assert rest <= {"beambert", "bin"}


def test_workers_get_the_locked_versions(installed):
    """Beam's --setup_file sends the sdist, whose requirements workers install."""
    (metadata,) = installed.glob("*.dist-info/METADATA")
    found = [
        Requirement(line.partition(": ")[2])
        for line in metadata.read_text().splitlines()
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    if (installed.parent.name).startswith("wheel"):
        assert {str(each.specifier) for each in found if each.name == "tensorflow"} == {">=2.20"}
        return
    assert all(str(each.specifier).startswith("==") for each in found)
    there = {each.name for each in found if not each.marker or each.marker.evaluate()}
    assert {"apache-beam", "tensorflow", "tfx-bsl", "google-cloud-storage", "protobuf"} <= there
    assert not there & {"pytest", "kfp", "ruff", "tensorflow-model-analysis"}
    for each in found:
        if each.name in there and (not each.marker or each.marker.evaluate()):
            assert each.specifier.contains(importlib.metadata.version(each.name)), each


def test_every_module_of_a_package_is_installed(installed):
    for top in ("beambert", *HOSTILE):
        inside = installed / "beambert" / ("" if top == "beambert" else top)
        for path in (ROOT / top).rglob("*.py"):
            if (path.parent / "__init__.py").exists():
                assert (inside / path.relative_to(ROOT / top)).exists(), path


def test_type_checkers_see_the_annotations(installed):
    """The marker of PEP 561 and the public names stand beside the modules."""
    for name in ("py.typed", "__init__.pyi"):
        assert (installed / "beambert" / name).exists()


def test_modules_are_those_of_the_installation(installed, tmp_path):
    files = run_hostile(installed, tmp_path, sys.executable, "-c", WHERE).split()
    assert len(files) > 6
    assert [file for file in files if not file.startswith(str(installed))] == []


def test_records_are_made(installed, tmp_path):
    (tmp_path / "text.txt").write_text("a river flows. a city lies there.\n\n" * 20)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz."]
    tokens += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    flags = ["--input=text.txt", "--vocab_file=vocab.txt", "--output=records"]
    flags += ["--max_seq_length=32", "--num_shards=1"]
    run_hostile(installed, tmp_path, sys.executable, "-m", "beambert", "data", *flags)
    assert (tmp_path / "records" / "_SUCCESS").exists()
