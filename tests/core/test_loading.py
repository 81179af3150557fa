"""Loading libraries: without those that are only shown in notebooks, and nothing stays changed."""

import gc
import importlib
import subprocess
import sys
import warnings

import pytest

from beambert.loading import hidden, in_command, loading

CODE = """
import gc, sys
from beambert.loading import in_command, loading
with in_command(), loading():
    assert not gc.isenabled()
    import keras
    from apache_beam.io.gcp.gcsfilesystem import GCSFileSystem
loaded = [name for name in ("matplotlib", "IPython", "keras", "apache_beam") if name in sys.modules]
import matplotlib.figure  # of a report, later
print(gc.isenabled(), *loaded)
"""


@pytest.mark.slow
def test_what_only_notebooks_show_is_not_loaded():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["True", "keras", "apache_beam"]


def test_a_module_that_is_run_keeps_what_is_there_for_good(tmp_path):
    """Such as one of ours, or a worker of Beam; not a program of the user's own."""
    code = "import gc\nfrom beambert.loading import loading\n"
    # Python 3.12 begins with some objects of its own there.
    code += "before = gc.get_freeze_count()\n"
    code += "with loading():\n    pass\nprint(gc.get_freeze_count() > before)\n"
    folder = tmp_path / "apache_beam" / "runners" / "worker"
    folder.mkdir(parents=True)
    for package in (folder, *folder.parents[:2]):
        (package / "__init__.py").write_text("")
    (tmp_path / "own.py").write_text(code)
    (folder / "sdk_worker_main.py").write_text(code)
    for module, expected in (
        ("own", "False"),
        ("apache_beam.runners.worker.sdk_worker_main", "True"),
    ):
        run = [sys.executable, "-m", module]
        done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.stdout.split() == [expected], done.stderr


def test_only_a_command_keeps_what_is_there_for_good():
    """The collector of a notebook goes on looking through all objects, and nothing is hidden."""
    gc.unfreeze()
    with loading():
        assert sys.modules.get("matplotlib", "not loaded") is not None
    assert gc.get_freeze_count() == 0 and gc.isenabled()
    with in_command():
        with loading():
            pass
        assert gc.get_freeze_count() > 0 and gc.isenabled()
    gc.unfreeze()
    with loading():
        pass
    assert gc.get_freeze_count() == 0


def test_filters_of_warnings_that_a_library_adds_are_gone():
    before = list(warnings.filters)
    with loading():
        warnings.simplefilter("once")
    assert warnings.filters == before


def test_a_failing_import_raises_and_all_is_as_before():
    before = set(sys.modules)
    with pytest.raises(ModuleNotFoundError, match="no_such_library"), loading():
        import no_such_library  # noqa: F401
    assert gc.isenabled() and set(sys.modules) == before


def test_what_is_hidden_is_there_again_afterwards(tmp_path, monkeypatch):
    (tmp_path / "seen_module.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with hidden("seen_module", "sys"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("seen_module")
        assert importlib.import_module("sys") is sys  # was loaded before
    assert importlib.import_module("seen_module")
    del sys.modules["seen_module"]
