"""Loading libraries: without those that are only shown in notebooks, and nothing stays changed."""

import gc
import importlib
import subprocess
import sys
import warnings

import pytest

from beambert import process
from beambert.process import hidden, loading

CODE = """
import gc, sys
from beambert import process
process.install()
with process.loading():
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


def test_only_a_command_keeps_what_is_there_for_good(monkeypatch):
    """The collector of a notebook goes on looking through all objects, and nothing is hidden."""
    gc.unfreeze()
    with loading():
        assert sys.modules.get("matplotlib", "not loaded") is not None
    assert gc.get_freeze_count() == 0 and gc.isenabled()
    with monkeypatch.context() as patched:
        patched.setattr(process._Ending, "stderr", 2)
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
