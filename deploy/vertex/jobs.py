"""Runs training jobs on Vertex AI: one at a time of a name, cancelled with the command, watched.

A job goes to the first region of the settings that has a machine for it.
"""

import dataclasses
import datetime
import itertools
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from beambert.deploy import google_cloud
from beambert.deploy.settings import Settings
from beambert.deploy.vertex.requests import in_region, on_demand
from beambert.errors import InputError

SECONDS_BETWEEN_LOOKS = 30.0
# The number of spot machines that a job may lose beyond Vertex's own restarts. After that it takes
# a machine that isn't taken back.
SPOT_LOSSES = 3
# Status codes of https://grpc.io/docs/guides/status-codes: the machine was lost, or there was none.
# Vertex reports a program that fails as INVALID_ARGUMENT and names its "non-zero status".
NO_MACHINE = 8
LOST = {
    NO_MACHINE: "no machine is free",
    10: "aborted",
    13: "Vertex failed",
    14: "the machine is gone",
}
# A job that waits longer for its machine is reported, which alerts.tf sends on.
QUEUE_LIMIT = datetime.timedelta(hours=4)
ENDS = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED")


def run_to_end(settings: Settings, job: Mapping[str, Any]) -> None:
    """Runs a job to its end, or waits for a running job of the same name.

    A job without a machine goes on in the next region. A spot job that has lost its machine several
    times, or found none, goes on with a machine that isn't taken back.

    Raises:
      InputError: the job failed, or no region has a machine for it.
      SystemExit: SIGTERM, see `_watch`.
    """
    places = itertools.cycle(settings.regions)
    region, losses = next(places), 0
    untried = len(settings.regions) - 1  # the regions that may have a machine of the kind
    while True:
        ended = _attempt(settings, in_region(job, settings, region), region)
        if ended.is_done:
            return
        is_spot = job["job_spec"]["scheduling"]["strategy"] == "SPOT"
        moves = ended.lacked_machine and untried > 0
        if not moves and not (is_spot and ended.is_lost):
            raise InputError(
                f"{ended.name}: {ended.why}; its log is on Vertex's page of custom jobs"
            )
        losses += is_spot
        kind = "another"
        if is_spot and losses >= max(SPOT_LOSSES, len(settings.regions)):
            job, kind, untried = on_demand(job), "an on-demand", len(settings.regions)
        if ended.lacked_machine:
            region, untried = next(places), untried - 1
        print(f"{ended.name}: {ended.why}; goes on with {kind} machine in {region}", flush=True)


@dataclasses.dataclass(frozen=True)
class _Ended:
    """The end of a job: its name, why it ended, and what that says of its machine."""

    name: str
    why: str
    is_done: bool = False
    is_lost: bool = False
    lacked_machine: bool = False


def _attempt(settings: Settings, job: Mapping[str, Any], region: str) -> _Ended:
    """Runs a job in a region, see `_watch`.

    Raises:
      InputError: Vertex AI refuses, for another reason than the quota.
    """
    from google.api_core.exceptions import ResourceExhausted

    with google_cloud.service_errors(job["display_name"], "the job cannot be started and watched"):
        try:
            found = _watch(settings, job, region)
        except ResourceExhausted as error:
            why = f"{region} has no quota left ({error})"
            return _Ended(job["display_name"], why, lacked_machine=True)
    why = f"{found.state.name} ({found.error.message})"
    is_done = found.state.name == "JOB_STATE_SUCCEEDED"
    return _Ended(found.name, why, is_done, _is_lost(found), found.error.code == NO_MACHINE)


def _is_lost(job: Any) -> bool:
    """Whether a job failed because of its machine and not because of its program."""
    failed = job.state.name == "JOB_STATE_FAILED"
    return failed and job.error.code in LOST and "non-zero status" not in job.error.message


def _watch(settings: Settings, job: Mapping[str, Any], region: str) -> Any:
    """Starts a job unless one of its name is at work anywhere, and returns it at its end.

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
        at_work = _at_work(settings, job["display_name"])
        client, found = at_work[0] if at_work else (_client(region), None)
        if found is None and not stopped:
            found = client.create_custom_job(parent=settings.parent_in(region), custom_job=job)
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


def _client(region: str) -> Any:
    return google_cloud.vertex_client("JobService", region)


def _at_work(settings: Settings, name: str) -> list[tuple[Any, Any]]:
    """Returns the jobs of a display name that are at work or wait for it, each with its client."""
    jobs = []
    for region in settings.regions:
        client = _client(region)
        request = {"parent": settings.parent_in(region), "filter": f'display_name="{name}"'}
        found = client.list_custom_jobs(request=request)
        jobs += [(client, job) for job in found if not _is_over(job)]
    return jobs


def cancel(settings: Settings, name: str) -> None:
    """Cancels the jobs of a display name that are at work.

    Raises:
      InputError: Vertex AI refuses.
    """
    with google_cloud.service_errors(name, "the job cannot be cancelled"):
        for client, job in _at_work(settings, name):
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
