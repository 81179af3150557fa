"""Leases on a storage and a clock of this test's own: who may take one, and who has lost one."""

import datetime
import json
import os
import subprocess
import sys

import google.cloud.storage
import pytest
from google.api_core import exceptions

from beambert.pipelines.storage import leases
from beambert.pipelines.storage.leases import LEASE, BusyError, Holder, Lease, Owner

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


def take(name: str, owner: Owner) -> Lease:
    lease = Lease(PATH)
    lease.acquire(name, LEASE, owner)
    return lease


DEAD = "999999999 1"


def test_a_job_whose_machine_was_taken_away_goes_on_at_once(bucket):
    """Another job waits until the lease has expired."""
    take("first", Owner("job 7", "machine a", DEAD))
    bucket.now += MINUTE
    other = Owner("job 8", "machine c", DEAD)
    with pytest.raises(BusyError, match=f"{PATH}: first .until 22 Nov 12:05 UTC. is at work"):
        take("other", other)
    take("second", Owner("job 7", "machine b", DEAD))
    bucket.now += LEASE - MINUTE
    with pytest.raises(BusyError, match="second .until 22 Nov 12:06 UTC"):
        take("other", other)
    bucket.now += MINUTE
    take("other", other)


def test_processes_outside_of_jobs_wait_for_each_other(bucket):
    take("first", Owner("", "machine a", DEAD))
    with pytest.raises(BusyError):
        take("second", Owner("", "machine b", DEAD))
    with pytest.raises(BusyError):
        take("third", Owner())


@pytest.mark.parametrize("job", ["", "job 7"])
def test_on_the_same_machine_the_dead_keep_nobody_out(bucket, job):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    there = Owner(job, "machine a", leases._process(process.pid))
    me = Owner(job, "machine a", leases._process(os.getpid()))
    try:
        take("first", there)
        with pytest.raises(BusyError):
            take("second", me)
    finally:
        process.kill()
    while leases.is_alive(there.process):
        pass
    take("second", me)  # nobody has waited for the process yet
    process.communicate()
    assert not leases.is_alive(there.process)


def test_numbers_of_processes_are_used_again():
    mine = leases._process(os.getpid())
    assert leases.is_alive(mine)
    assert not leases.is_alive(f"{os.getpid()} 1")  # it began in another century
    assert leases.is_alive("")  # nothing is known


def test_the_jobs_of_vertex_ai():
    def job(**environment):
        return leases._managed_job(environment)

    assert job() == job(CLUSTER_SPEC="{}") == ""
    cluster = json.dumps({"cluster": {}, "task": {"type": "workerpool0", "index": 0}})
    other = json.dumps({"cluster": {}, "task": {"type": "workerpool1", "index": 0}})
    jobs = [
        job(CLOUD_ML_JOB_ID="7"),
        job(CLOUD_ML_JOB_ID="8"),
        job(CLOUD_ML_JOB_ID="7", CLOUD_ML_TRIAL_ID="2"),
        job(CLOUD_ML_JOB_ID="7", CLUSTER_SPEC=cluster),
        job(CLOUD_ML_JOB_ID="7", CLUSTER_SPEC=other),
    ]
    assert len(set(jobs)) == 5
    assert job(CLOUD_ML_JOB_ID="7", CLUSTER_SPEC="damaged") == jobs[0]
    assert job(CLOUD_ML_JOB_ID="7", TF_CONFIG=cluster) == jobs[3]


def test_the_owner_is_in_the_object(bucket, monkeypatch):
    monkeypatch.setenv("CLOUD_ML_JOB_ID", "7")
    with leases.held(PATH, "me"):
        ((_, _, text),) = bucket.objects.values()
        found = Holder.from_json(text)
        assert found == Holder("me", LEASE, leases.this_process())
        assert found.owner.process.startswith(f"{os.getpid()} ") and found.owner.job
    assert not bucket.objects
    # That of an earlier version has none.
    assert Holder.from_json('{"holder": "x", "seconds": 300}').owner == Owner()


def test_who_has_lost_a_lease_is_told_before_it_writes(bucket):
    """Its process stood still for longer than the lease."""
    with leases.held(PATH, "sleeper") as lease:
        lease.check()
        bucket.now += LEASE + MINUTE
        lease.check()  # nobody wanted it
        other = take("other", Owner("", "machine b", DEAD))
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
        take("third", Owner())
    ((_, _, text),) = bucket.objects.values()
    assert Holder.from_json(text).name == "third"  # the loser has not released it


def test_the_answer_to_a_renewal_was_lost(bucket):
    lease = take("me", Owner())
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
    lease = take("me", Owner())
    lease.acquire("me", LEASE)
    lease.check()
    lease.release()
    assert not bucket.objects


def test_a_lost_lease_ends_the_process(bucket, monkeypatch, capsys):
    signals = []
    monkeypatch.setattr(leases, "SECONDS_BETWEEN_RENEWALS", 0.01)
    monkeypatch.setattr(leases.os, "kill", lambda *of: signals.append(of))
    with pytest.raises(SystemExit), leases.held(PATH, "me"):
        bucket.blob("model/_tmp-lock").upload_from_string(Holder("thief", LEASE).to_json())
        while not signals:
            pass
        raise SystemExit(143)
    assert signals == [(os.getpid(), leases.signal.SIGTERM)]
    assert capsys.readouterr().err.count("another command has taken the lock: ") == 1
