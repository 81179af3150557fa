"""Locks of output folders: one command at a time, and the dead keep nobody out."""

import errno
import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest

from beambert.folders import BusyError, file_held, folders_held


def holder(call: str) -> subprocess.Popen:
    """A process that holds a lock until it gets a line."""
    code = f"""
        import sys
        from beambert import folders
        with folders.{call}:
            print("held", flush=True)
            sys.stdin.readline()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_is_told_who_is_at_work(tmp_path):
    output = str(tmp_path / "records")
    with holder(f"folders_held([{output!r}], '--output')") as process:
        message = (
            rf"--output={re.escape(output)}: process {process.pid} on \S+ since \d\d \w+ [\d:]+ "
            "UTC is at work there; wait for its end, or choose another"
        )
        with pytest.raises(BusyError, match=f"^{message}$"), folders_held([output], "--output"):
            pass
        process.communicate("\n")
    with folders_held([output], "--output"):
        pass
    assert not os.path.exists(output)  # nobody has written to it
    with folders_held([output], "--output") as lock:
        assert lock.is_exclusive


@pytest.mark.parametrize("call", ["folders_held([{!r}], '')", "file_held({!r}, '')"])
def test_a_killed_holder_keeps_nobody_out(call, tmp_path):
    output = str(tmp_path / "output")
    with holder(call.format(output)) as process:
        process.kill()
    with eval(call.format(output)):
        pass
    assert os.listdir(tmp_path) in ([], ["output"])


def test_folders_in_a_folder(tmp_path):
    """Whoever fills one of them keeps out who fills all."""
    outer, inner = str(tmp_path / "records"), str(tmp_path / "records" / "eval")
    with folders_held([inner], "--output"):
        with pytest.raises(BusyError, match="eval"), folders_held([outer, inner], "--output"):
            pass
        with folders_held([outer], "--output"):
            pass
    with folders_held([outer, inner], "--output"):
        pass
    assert not os.path.exists(outer) or os.listdir(outer) == []


def test_other_files_of_the_same_folder(tmp_path):
    with file_held(str(tmp_path / "a.txt"), "--output"):
        with file_held(str(tmp_path / "b.txt"), "--output"):
            pass
        busy = pytest.raises(BusyError, match="--output=.*a.txt: ")
        with busy, file_held(str(tmp_path / "a.txt"), "--output"):
            pass
    assert os.listdir(tmp_path) == []


def test_what_killed_commands_left_is_deleted(tmp_path):
    for name in ("_tmp-0-part", "_tmp-folder", "part-0", "_UNFINISHED"):
        (tmp_path / name).mkdir() if "folder" in name else (tmp_path / name).write_text(name)
    (tmp_path / "_tmp-folder" / "inner").write_text("x")
    with folders_held([str(tmp_path)], "--output"):
        assert sorted(os.listdir(tmp_path)) == ["_UNFINISHED", "_tmp-lock", "part-0"]
    assert sorted(os.listdir(tmp_path)) == ["_UNFINISHED", "part-0"]


def test_temporary_files_of_others_stay(tmp_path):
    """Without the mark of an unfinished job the folder may be anybody's."""
    (tmp_path / "_tmp-x").write_text("somebody else is writing it")
    with folders_held([str(tmp_path)], "--output"):
        pass
    assert os.listdir(tmp_path) == ["_tmp-x"]


def test_what_was_left_beside_a_file_is_deleted(tmp_path):
    names = ("vocab.txt", "vocab.txt.json", "vocab.txt.j")
    for name in (*(f"_tmp-{'0' * 32}-{name}" for name in names), "vocab.txt"):
        (tmp_path / name).write_text(name)
    path, kept = str(tmp_path / "vocab.txt"), [f"_tmp-{'0' * 32}-vocab.txt.j", "vocab.txt"]
    with file_held(path, "--output", [f"{path}.json"]):
        assert sorted({*os.listdir(tmp_path)} - {"_tmp-lock-vocab.txt"}) == kept
    assert sorted(os.listdir(tmp_path)) == kept


def test_a_lock_file_that_its_holder_deletes(tmp_path):
    """The lock of a deleted file keeps nobody out, so it is not taken for one."""
    with folders_held([str(tmp_path)], "--output"):
        with open(tmp_path / "_tmp-lock"):
            os.unlink(tmp_path / "_tmp-lock")
        with folders_held([str(tmp_path)], "--output"):
            pass


def test_a_file_system_without_locks(tmp_path, monkeypatch, capsys):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    (tmp_path / "_tmp-x").write_text("perhaps another command is writing it")
    with folders_held([str(tmp_path)], "--output") as lock:
        assert not lock.is_exclusive and (tmp_path / "_tmp-x").exists()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(
        f"--output={tmp_path}: its file system has no locks (No locks available)"
    )


LEASED = """
import time
from beambert import process
from beambert import folders
process.install()
with folders.folders_held(["gs://bucket/leased"], "--output"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_signal_releases_a_lease(gs, storage_environment):
    """Otherwise the same command would be refused until the lease has expired."""
    process = subprocess.Popen(
        [sys.executable, "-c", LEASED],
        env=os.environ | storage_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=30)
    assert (process.returncode, error.count("\n")) == (143, 1), error
    with folders_held(["gs://bucket/leased"], "--output"):
        pass
