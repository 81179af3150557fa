"""Leases on a storage and a clock of this test's own: who may take one, and who has lost one."""

import datetime
import json
import os

import google.cloud.storage
import pytest
from google.api_core import exceptions

from beambert import locks
from beambert.locks import LEASE, BusyError, Lease

PATH = "gs://bucket/model/_tmp-lock"
MINUTE = datetime.timedelta(minutes=1)


class Bucket:
    """Objects with generations, and the time of the storage."""

    def __init__(self):
        self.now = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.UTC)
        self.objects, self.generations = {}, 0

    def get_blob(self, name):
        return self.blob(name) if name in self.objects else None

    def blob(self, name):
        return Blob(self, name)


class Blob:
    """An object as it was when it was looked at, or a new one."""

    def __init__(self, bucket, name):
        self.bucket, self.name = bucket, name
        self.generation, self.updated, _ = bucket.objects.get(name, (0, None, None))

    def _expect(self, generation):
        there = self.bucket.objects.get(self.name, (0,))[0]
        if generation is not None and there != generation:
            raise exceptions.PreconditionFailed("another generation")

    def upload_from_string(self, text, if_generation_match=None):
        self._expect(if_generation_match)
        self.bucket.generations += 1
        self.generation, self.updated = self.bucket.generations, self.bucket.now
        self.bucket.objects[self.name] = (self.generation, self.updated, text)

    def download_as_text(self, if_generation_match=None):
        self._expect(if_generation_match)
        return self.bucket.objects[self.name][2]

    def delete(self, if_generation_match=None):
        self._expect(if_generation_match)
        if self.bucket.objects.pop(self.name, None) is None:
            raise exceptions.NotFound("gone")


@pytest.fixture
def bucket(monkeypatch):
    made = Bucket()
    client = type("Client", (), {"bucket": lambda *_: made})
    monkeypatch.setattr(google.cloud.storage, "Client", lambda **_: client())
    return made


@pytest.fixture(autouse=True)
def clock(bucket, monkeypatch):
    """The clock of this machine is that of the storage."""

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, _):
            return bucket.now

    monkeypatch.setattr(locks.datetime, "datetime", Clock)


def take(name: str) -> Lease:
    lease = Lease(PATH)
    lease.acquire(name, LEASE)
    return lease


def test_a_lease_expires_unless_it_is_renewed(bucket):
    first = take("first")
    bucket.now += LEASE - MINUTE
    with pytest.raises(BusyError, match=f"{PATH}: first .until 22 Nov 12:03 UTC. is at work"):
        take("other")
    first.acquire("first", LEASE)
    bucket.now += LEASE - MINUTE
    with pytest.raises(BusyError, match="first .until 22 Nov 12:05 UTC"):
        take("other")
    bucket.now += MINUTE
    take("other")


@pytest.mark.parametrize("is_alive", [False, True])
def test_a_command_waits_for_a_sign_of_life(bucket, monkeypatch, capsys, is_alive):
    """That of a killed command expires; one that is renewed meanwhile is another's."""
    holder = take("before")

    def sleep(seconds):
        bucket.now += datetime.timedelta(seconds=seconds)
        if is_alive:
            holder.acquire("before", LEASE)

    monkeypatch.setattr(locks.time, "sleep", sleep)
    monkeypatch.setattr(locks.storage, "exists", lambda _: True)
    name = "model/_tmp-lock"
    monkeypatch.setattr(locks.storage, "modified", lambda _: bucket.objects[name][1])
    if is_alive:
        with pytest.raises(BusyError, match="before"), locks.held(PATH, "me"):
            pass
    else:
        with locks.held(PATH, "me"):
            assert '"before"' not in bucket.objects[name][2]
        assert not bucket.objects
    assert capsys.readouterr().err.count("waiting") == 1


def test_a_lost_lease_is_found_before_a_write(bucket):
    """Its process stood still for longer than the lease."""
    with locks._lease_held(PATH, "sleeper") as lease:
        lease.check()
        bucket.now += LEASE + MINUTE
        lease.check()  # nobody wanted it
        other = take("other")
        with pytest.raises(BusyError, match="another command has taken the lock, "):
            lease.check()
        with pytest.raises(BusyError, match="other"):
            lease.acquire("sleeper", LEASE)
        other.release()
        # Though it is free again, the folder is no longer what it was.
        with pytest.raises(BusyError):
            lease.check()
        with pytest.raises(BusyError, match="which has ended since"):
            lease.acquire("sleeper", LEASE)
        take("third")
    ((_, _, text),) = bucket.objects.values()
    assert json.loads(text)["holder"] == "third"  # the loser has not released it


def test_the_answer_to_a_renewal_was_lost(bucket):
    lease = take("me")
    twin = Lease(PATH)
    twin.acquire("me", LEASE)  # what the storage has done without our knowing
    lease.check()
    lease.acquire("me", LEASE)
    lease.check()


def test_a_request_that_is_repeated_has_succeeded_before(bucket, monkeypatch):
    """The library repeats a request without an answer, and the generation is another one then."""
    upload = Blob.upload_from_string

    def repeated(blob, text, if_generation_match=None):
        for _ in range(2):
            upload(blob, text, if_generation_match)

    monkeypatch.setattr(Blob, "upload_from_string", repeated)
    lease = take("me")
    lease.acquire("me", LEASE)
    lease.check()
    lease.release()
    assert not bucket.objects


def test_a_lost_lease_ends_the_process(bucket, monkeypatch, capsys):
    signals = []
    monkeypatch.setattr(locks, "SECONDS_BETWEEN_RENEWALS", 0.01)
    monkeypatch.setattr(locks.os, "kill", lambda *of: signals.append(of))
    with pytest.raises(SystemExit), locks.held(PATH, "me"):
        bucket.blob("model/_tmp-lock").upload_from_string('{"holder": "thief", "seconds": 300}')
        while not signals:
            pass
        raise SystemExit(143)
    assert signals == [(os.getpid(), locks.signal.SIGTERM)]
    assert capsys.readouterr().err.count("another command has taken the lock: ") == 1
