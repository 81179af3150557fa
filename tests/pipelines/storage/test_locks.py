"""Locks of folders and files, by the kernel here and by objects on other storage.

The others are an emulated gs:// and fsspec's memory, which stands for all that fsspec knows.
"""

import contextlib
import datetime
import errno
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import uuid

import pytest

from beambert import folders, io
from beambert.errors import InputError
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


@pytest.mark.parametrize("call", ["folders_held([{!r}], '')", "file_held({!r})"])
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
    with file_held(str(tmp_path / "a.txt")):
        with file_held(str(tmp_path / "b.txt")):
            pass
        busy = pytest.raises(BusyError, match="--output=.*a.txt: ")
        with busy, file_held(str(tmp_path / "a.txt")):
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
    with file_held(path, [f"{path}.json"]):
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


@pytest.fixture(params=["gs", "memory"])
def folder(request, monkeypatch):
    monkeypatch.setattr(folders, "LEASE", datetime.timedelta(seconds=0.2))
    monkeypatch.setattr(folders, "SECONDS_BETWEEN_TRIES", 0.01)
    root = request.getfixturevalue("gs") if request.param == "gs" else "memory://bucket"
    return f"{root}/{uuid.uuid4().hex}"


def held(folder):
    return folders.folders_held([folder], "--output")


def lock_of(folder):
    return f"{folder}/{io.LOCK_PREFIX}"


def test_the_second_waits_for_a_sign_of_life(folder, monkeypatch, capsys):
    """Of a holder that writes its lock again."""
    monkeypatch.setattr(folders, "LEASE", datetime.timedelta(minutes=1))
    monkeypatch.setattr(folders, "SECONDS_BETWEEN_RENEWALS", 0.05)
    with held(folder) as lock:
        assert lock.is_exclusive
        lock.check()
        busy = pytest.raises(BusyError, match=rf"process {os.getpid()} on .* is at work there")
        with busy, held(folder):
            pass
        assert capsys.readouterr().err.count("waiting for a sign of life") == 1
        with held(f"{folder}-other"):
            pass
        lock.check()
    assert io.list_folder(folder) == []
    with held(folder):
        pass


@pytest.mark.parametrize("content", [b"process 1", b'{"holder": '])
def test_a_killed_holder_is_taken_over(folder, content):
    io.write_bytes(lock_of(folder), content)
    with held(folder) as lock:
        lock.check()
    assert io.list_folder(folder) == []


def test_of_two_who_take_over_one_is_refused(folder, monkeypatch):
    io.write_bytes(lock_of(folder), b"dead")
    take, others = io.replace_content, []

    def after_another(path, old, new):
        if old == b"dead" and not others:
            others.append(take(path, old, b"the faster one"))
        return take(path, old, new)

    monkeypatch.setattr(io, "replace_content", after_another)
    with pytest.raises(BusyError, match="the faster one is at work"), held(folder):
        pass
    assert others == [True] and io.content_of(lock_of(folder)) == b"the faster one"


def test_a_lost_lock_is_found_before_a_write_and_left_to_the_other(folder):
    """Its process stood still."""
    with held(folder) as lock:
        lock.check()
        io.write_bytes(lock_of(folder), b"the other one")
        with pytest.raises(BusyError, match="another command has taken the lock, "):
            lock.check()
    assert io.content_of(lock_of(folder)) == b"the other one"


def test_a_lost_lock_ends_the_process(folder, monkeypatch, capsys):
    signals = []
    monkeypatch.setattr(folders, "SECONDS_BETWEEN_RENEWALS", 0.01)
    monkeypatch.setattr(folders.os, "kill", lambda *of: signals.append(of))
    with contextlib.suppress(SystemExit), held(folder):
        io.write_bytes(lock_of(folder), b"a thief")
        deadline = time.monotonic() + 60
        while not signals and time.monotonic() < deadline:
            time.sleep(0.01)
        raise SystemExit(143)
    assert signals == [(os.getpid(), folders.signal.SIGTERM)]
    assert "another command has taken the lock of --output=" in capsys.readouterr().err


def test_a_request_that_is_repeated_has_succeeded_before(gs, monkeypatch):
    """The library repeats a request without an answer, and finds its own object."""
    from google.cloud.storage import Blob

    upload = Blob.upload_from_string

    def repeated(blob, content, if_generation_match=None):
        for _ in range(2):
            upload(blob, content, if_generation_match=if_generation_match)

    monkeypatch.setattr(Blob, "upload_from_string", repeated)
    path = f"{gs}/repeated/lock"
    assert io.replace_content(path, None, b"1")
    assert io.replace_content(path, b"1", b"2")
    assert not io.replace_content(path, b"1", b"3")
    assert io.content_of(path) == b"2"


def test_a_bucket_that_does_not_exist(gs):
    for name in ("no-such-bucket", "", "-", "_x"):
        folder = f"gs://{name}/folder"
        with pytest.raises(InputError, match=f"{folder}/.*: cannot be .*; "), held(folder):
            pass
