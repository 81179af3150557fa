"""Hiding stderr from several threads at once: nobody waits, and it is put back."""

import os
import threading

import pytest

from beambert.pipelines.shared.console import quiet_stderr, run_main


def test_a_thread_does_not_wait_for_another_that_hides(capfd):
    entered = threading.Event()

    def hide():
        with quiet_stderr():
            entered.set()

    with quiet_stderr():
        worker = threading.Thread(target=hide, daemon=True)
        worker.start()
        assert entered.wait(timeout=10)
        worker.join(timeout=10)
        os.write(2, b"hidden")
    os.write(2, b"seen")
    assert capfd.readouterr().err == "seen"


def test_the_last_to_leave_puts_it_back(capfd):
    first, second = quiet_stderr(), quiet_stderr()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    os.write(2, b"hidden")
    second.__exit__(None, None, None)
    os.write(2, b"seen")
    assert capfd.readouterr().err == "seen"


@pytest.mark.parametrize(
    "error",
    [MemoryError(), ImportError("libtensorflow_cc.so.2: failed to map segment from shared object")],
)
def test_memory_that_is_used_up_is_one_sentence(error, capsys, monkeypatch):
    def main(_):
        raise error

    monkeypatch.setattr("resource.getrlimit", lambda _: (-1, -1))
    assert run_main("data", main, []) == 2
    assert capsys.readouterr().err == "beambert data: the memory is used up; give it more\n"


def test_too_few_addresses_are_told_before_anything_can_abort(capsys, monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (2_560_000_000, -1))
    assert run_main("data", lambda _: None, []) == 0
    said = capsys.readouterr().err
    assert said.startswith("beambert data: this process may have 2.6 GB of addresses (ulimit -v)")
    assert "`ulimit -v unlimited`" in said and said.count("\n") == 1
    assert run_main("data", lambda _: None, ["--help"]) == 0
    assert capsys.readouterr().err == ""


def test_a_library_that_is_missing_is_no_matter_of_memory():
    def main(_):
        raise ImportError("No module named 'x'")

    with pytest.raises(ImportError, match="No module"):
        run_main("data", main, [])
