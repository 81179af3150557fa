"""Locks on other storage: one holder at a time, also after a kill or a standstill.

The storages are an emulated gs:// and fsspec's memory, which stands for all that fsspec knows.
"""

import contextlib
import datetime
import os
import time
import uuid

import pytest

from beambert import folders, io
from beambert.errors import InputError
from beambert.folders import BusyError


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
