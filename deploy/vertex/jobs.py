"""Runs training jobs on Vertex AI: one at a time of a name, cancelled with the command, watched."""

import datetime
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from beambert.deploy import google_cloud
from beambert.deploy.settings import Settings
from beambert.deploy.vertex.requests import on_demand
from beambert.pipelines.shared.errors import InputError

SECONDS_BETWEEN_LOOKS = 30.0
# The number of spot machines that a job may lose beyond Vertex's own restarts. After that it takes
# a machine that isn't taken back.
SPOT_LOSSES = 3
# Status codes of https://grpc.io/docs/guides/status-codes: the machine was lost, or there was none.
# Vertex reports a program that fails as INVALID_ARGUMENT and names its "non-zero status".
LOST = {8: "no machine is free", 10: "aborted", 13: "Vertex failed", 14: "the machine is gone"}
# A job that waits longer for its machine is reported, which alerts.tf sends on.
QUEUE_LIMIT = datetime.timedelta(hours=4)
ENDS = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED")


def run_job(settings: Settings, job: Mapping[str, Any]) -> None:
    """Runs a job to its end, or waits for a running job of the same name.

    A spot job that has lost its machine several times goes on with a machine that isn't taken back.

    Raises:
      InputError: the job failed.
      SystemExit: SIGTERM, see `_watch`.
    """
    losses = 0
    while True:
        with google_cloud.told(job["display_name"], "the job cannot be started and watched"):
            client = google_cloud.vertex_client("JobService", settings.region)
            found = _watch(client, settings, job)
        if found.state.name == "JOB_STATE_SUCCEEDED":
            return
        losses += 1
        is_spot = job["job_spec"]["scheduling"]["strategy"] == "SPOT"
        why = f"{found.name}: {found.state.name} ({found.error.message})"
        if not is_spot or not _is_lost(found):
            raise InputError(
                f"{found.name}: {found.state.name} ({found.error.message}); its log is on Vertex's "
                "page of custom jobs"
            )
        kind = "another"
        if losses >= SPOT_LOSSES:
            job, kind = on_demand(job), "an on-demand"
        print(f"{why}; goes on with {kind} machine", flush=True)


def _is_lost(job: Any) -> bool:
    """Whether a job failed because of its machine and not because of its program."""
    failed = job.state.name == "JOB_STATE_FAILED"
    return failed and job.error.code in LOST and "non-zero status" not in job.error.message


def _watch(client: Any, settings: Settings, job: Mapping[str, Any]) -> Any:
    """Starts a job unless one of its name is at work, and returns it at its end.

    SIGTERM cancels the job. A pipeline that is cancelled sends it to its component, and
    accelerators that nobody waits for would be paid for. After Ctrl-C the job goes on.

    Raises:
      SystemExit: SIGTERM.
    """
    stopped = []

    def stop(number: int, _: object) -> None:
        stopped.append(number)  # No exception: the request that creates the job must be answered.

    previous = signal.signal(signal.SIGTERM, stop)
    name = None
    try:
        at_work = _at_work(client, settings, job["display_name"])
        found = at_work[0] if at_work else None
        if found is None and not stopped:
            found = client.create_custom_job(parent=settings.parent, custom_job=job)
        if found is not None:
            name = found.name
            print(f"{name}: {'waiting' if at_work else 'started'}", flush=True)
        queued = _Queue()
        while not stopped and not _is_over(found):
            _sleep(stopped)
            if not stopped:
                found = client.get_custom_job(name=name)
                queued.look(found)
        if stopped:
            raise SystemExit(128 + stopped[0])
        return found
    except SystemExit:
        if name:
            client.cancel_custom_job(name=name)
            told = f"{name}: cancelled, as SIGTERM ended the wait for it"
            print(told, file=sys.stderr, flush=True)
        raise
    except KeyboardInterrupt:
        print(f"{name}: goes on; cancel it on Vertex's page of custom jobs", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)


def _at_work(client: Any, settings: Settings, name: str) -> list[Any]:
    """Returns the jobs of a display name that are at work or wait for it."""
    request = {"parent": settings.parent, "filter": f'display_name="{name}"'}
    return [found for found in client.list_custom_jobs(request=request) if not _is_over(found)]


def cancel(settings: Settings, name: str) -> None:
    """Cancels the jobs of a display name that are at work.

    Raises:
      InputError: Vertex AI refuses.
    """
    with google_cloud.told(name, "the job cannot be cancelled"):
        client = google_cloud.vertex_client("JobService", settings.region)
        for job in _at_work(client, settings, name):
            client.cancel_custom_job(name=job.name)
            print(f"{job.name}: cancelled, as its pipeline has ended", file=sys.stderr, flush=True)


def _sleep(stopped: list[int]) -> None:
    """Sleeps between two looks, but for at most a second after SIGTERM."""
    end = time.monotonic() + SECONDS_BETWEEN_LOOKS
    while not stopped and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 1.0))


class _Queue:
    """Reports a job that waits for its machine, once for each `QUEUE_LIMIT`."""

    def __init__(self):
        self._limit = QUEUE_LIMIT

    def look(self, job: Any) -> None:
        if job.state.name not in ("JOB_STATE_QUEUED", "JOB_STATE_PENDING"):
            return
        waited = datetime.datetime.now(datetime.UTC) - job.create_time
        if waited >= self._limit:
            hours = waited.total_seconds() / 3600
            print(f"{job.name}: has been queued for {hours:.0f} hours", file=sys.stderr, flush=True)
            self._limit = waited + QUEUE_LIMIT


def _is_over(job: Any) -> bool:
    return job.state.name.removeprefix("JOB_STATE_") in ENDS
