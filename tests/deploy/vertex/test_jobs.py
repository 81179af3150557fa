"""Jobs on Vertex AI are found, awaited, cancelled, and moved off spot machines."""

import datetime
import os
import signal

import grpc
import pytest
from google.cloud import aiplatform_v1 as aiplatform
from support.cloud_samples import DEPLOYMENT, SETTINGS

from beambert.deploy.settings import Deployment, Settings
from beambert.deploy.vertex import jobs, requests
from beambert.errors import InputError

JOB = requests.job_by_hand(DEPLOYMENT, ["pretrain"], 5)
ONE = "projects/p/locations/r/customJobs/1"


@pytest.fixture
def vertex(services):
    """Vertex with no job, whose jobs are done when they are looked at again."""
    services.answers = {
        "ListCustomJobs": aiplatform.ListCustomJobsResponse(),
        "CreateCustomJob": aiplatform.CustomJob(name=ONE, state="JOB_STATE_PENDING"),
        "GetCustomJob": aiplatform.CustomJob(name=ONE, state="JOB_STATE_SUCCEEDED"),
        "CancelCustomJob": _nothing(),
    }
    return services


def _nothing():
    from google.protobuf import empty_pb2

    return empty_pb2.Empty()


def test_a_job_runs_to_its_end(vertex):
    jobs.run_to_end(SETTINGS, JOB)
    (created,) = vertex.sent("CreateCustomJob")
    assert created.parent == "projects/my-project/locations/us-central1"
    assert created.custom_job == aiplatform.CustomJob(JOB)


def test_a_step_that_is_repeated_waits_for_the_job_at_work(vertex, capsys):
    """As after the component that began it was lost."""
    running = aiplatform.CustomJob(name=ONE, state="JOB_STATE_RUNNING")
    done = aiplatform.CustomJob(name="done", state="JOB_STATE_FAILED")
    found = aiplatform.ListCustomJobsResponse(custom_jobs=[done, running])
    vertex.answers["ListCustomJobs"] = found
    jobs.run_to_end(SETTINGS, JOB)
    assert not vertex.sent("CreateCustomJob") and f"{ONE}: waiting" in capsys.readouterr().out
    (asked,) = vertex.sent("ListCustomJobs")
    assert asked.filter == f'display_name="{JOB["display_name"]}"'


@pytest.mark.parametrize("failing", ["ListCustomJobs", "CreateCustomJob", "GetCustomJob"])
def test_a_service_that_refuses(vertex, failing):
    """If the list can't be read, nothing is started: a job may be at work."""
    vertex.answers[failing] = grpc.StatusCode.PERMISSION_DENIED
    with pytest.raises(InputError, match=f"{JOB['display_name']}: the job cannot be .*403.*roles"):
        jobs.run_to_end(SETTINGS, JOB)
    assert len(vertex.sent("CreateCustomJob")) == (failing != "ListCustomJobs")


def press(number):
    def answer(_):
        os.kill(os.getpid(), number)
        return aiplatform.CustomJob(name=ONE, state="JOB_STATE_RUNNING")

    return answer


@pytest.mark.parametrize("moment", ["CreateCustomJob", "GetCustomJob"])
def test_a_cancelled_pipeline_leaves_no_accelerators_at_work(vertex, capsys, moment):
    """Also if the signal comes while the job is being created."""
    vertex.answers[moment] = press(signal.SIGTERM)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        jobs.run_to_end(SETTINGS, JOB)
    assert ended.value.code == 143
    assert [request.name for request in vertex.sent("CancelCustomJob")] == [ONE]
    assert capsys.readouterr().err.startswith(f"{ONE}: cancelled")
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_before_the_job_is_there(vertex):
    vertex.answers["ListCustomJobs"] = lambda _: (
        os.kill(os.getpid(), signal.SIGTERM) or aiplatform.ListCustomJobsResponse()
    )
    with pytest.raises(SystemExit):
        jobs.run_to_end(SETTINGS, JOB)
    assert not vertex.sent("CreateCustomJob") and not vertex.sent("CancelCustomJob")


def test_ctrl_c_only_ends_the_wait(vertex, capsys, monkeypatch):
    vertex.answers["GetCustomJob"] = aiplatform.CustomJob(name=ONE, state="JOB_STATE_RUNNING")

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "_sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        jobs.run_to_end(SETTINGS, JOB)
    assert not vertex.sent("CancelCustomJob")
    assert capsys.readouterr().err.startswith(f"{ONE}: goes on")


def ended(code, message):
    error = {"code": code, "message": message}
    return aiplatform.CustomJob(name=ONE, state="JOB_STATE_FAILED", error=error)


@pytest.mark.parametrize(
    ("code", "message"),
    [(3, "The replica workerpool0-0 exited with a non-zero status of 2."), (7, "no quota")],
)
def test_a_job_that_fails_is_not_repeated(vertex, code, message):
    vertex.answers["GetCustomJob"] = ended(code, message)
    with pytest.raises(InputError, match="JOB_STATE_FAILED .*; its log"):
        jobs.run_to_end(SETTINGS, JOB)
    assert len(vertex.sent("CreateCustomJob")) == 1


def test_spot_first_then_on_demand(vertex, capsys):
    """The command continues from its last checkpoint, so no machine's work is lost."""
    ends = iter([ended(14, "preempted")] * 2 + [ended(8, "Resources are insufficient")])
    success = aiplatform.CustomJob(name=ONE, state="JOB_STATE_SUCCEEDED")
    vertex.answers["GetCustomJob"] = lambda _: next(ends, success)
    jobs.run_to_end(SETTINGS, JOB)
    schedulings = [r.custom_job.job_spec.scheduling for r in vertex.sent("CreateCustomJob")]
    assert [s.strategy.name for s in schedulings] == ["SPOT"] * 3 + ["STANDARD"]
    assert not schedulings[-1].restart_job_on_worker_restart
    assert capsys.readouterr().out.count("goes on with an on-demand machine") == 1


NO_MACHINE = "Resources are insufficient in region"


def places(vertex):
    """Returns the region and the strategy of each job that was sent."""
    return [
        (
            request.parent.rpartition("/")[2],
            request.custom_job.job_spec.scheduling.strategy.name,
        )
        for request in vertex.sent("CreateCustomJob")
    ]


def regions(*more, trainer="v5e-8-spot"):
    """Returns settings with several regions, and a job for them."""
    settings = Settings(**vars(SETTINGS) | {"trainer": trainer, "training_regions": more})
    deployment = Deployment(settings, DEPLOYMENT.release)
    return settings, requests.job_by_hand(deployment, ["pretrain"], 5)


def test_a_region_without_machines(vertex, capsys):
    """The next one is tried; a machine that is only taken back is sought where it was."""
    ends = iter([ended(8, NO_MACHINE), ended(14, "preempted")])
    success = aiplatform.CustomJob(name=ONE, state="JOB_STATE_SUCCEEDED")
    vertex.answers["GetCustomJob"] = lambda _: next(ends, success)
    jobs.run_to_end(*regions("us-west4", "europe-west4"))
    assert places(vertex) == [("us-central1", "SPOT"), ("us-west4", "SPOT"), ("us-west4", "SPOT")]
    assert capsys.readouterr().out.count("goes on with another machine in us-west4") == 2
    looked = {request.parent.rpartition("/")[2] for request in vertex.sent("ListCustomJobs")}
    assert looked == {"us-central1", "us-west4", "europe-west4"}


def test_no_region_has_machines(vertex):
    """On demand each is tried once, and then a person is told."""
    vertex.answers["GetCustomJob"] = ended(8, NO_MACHINE)
    with pytest.raises(InputError, match=NO_MACHINE):
        jobs.run_to_end(*regions("us-west4", trainer="v5e-8"))
    assert places(vertex) == [("us-central1", "STANDARD"), ("us-west4", "STANDARD")]
    vertex.requests.clear()
    with pytest.raises(InputError, match=NO_MACHINE):
        jobs.run_to_end(*regions("us-west4"))
    assert [place for place, kind in places(vertex) if kind == "STANDARD"] == [
        "us-west4",
        "us-central1",
    ]
    assert len(places(vertex)) == jobs.SPOT_LOSSES + 2


def test_a_region_without_quota(vertex):
    """It refuses the job at once."""
    answer = vertex.answers["CreateCustomJob"]
    vertex.answers["CreateCustomJob"] = lambda request: (
        grpc.StatusCode.RESOURCE_EXHAUSTED if "us-central1" in request.parent else answer
    )
    jobs.run_to_end(*regions("us-west4"))
    assert places(vertex) == [("us-central1", "SPOT"), ("us-west4", "SPOT")]
    with pytest.raises(InputError, match="pretrain-.*: us-central1 has no quota left .429"):
        jobs.run_to_end(SETTINGS, JOB)
    assert places(vertex)[2:] == [("us-central1", "SPOT")]


def test_a_job_at_work_in_another_region(vertex):
    """A repeated step waits for it there, and the end of a pipeline cancels it there."""
    running = aiplatform.CustomJob(name=ONE, state="JOB_STATE_RUNNING")
    there = aiplatform.ListCustomJobsResponse(custom_jobs=[running])
    vertex.answers["ListCustomJobs"] = lambda request: (
        there if "us-west4" in request.parent else aiplatform.ListCustomJobsResponse()
    )
    settings, job = regions("us-west4")
    jobs.run_to_end(settings, job)
    assert not vertex.sent("CreateCustomJob")
    jobs.cancel(settings, job["display_name"])
    assert len(vertex.sent("CancelCustomJob")) == 1


def test_an_on_demand_job_is_not_repeated(vertex):
    settings = Settings(**vars(SETTINGS) | {"trainer": "v5e-8"})
    vertex.answers["GetCustomJob"] = ended(14, "gone")
    with pytest.raises(InputError, match="gone"):
        jobs.run_to_end(
            settings, requests.job_by_hand(Deployment(settings, DEPLOYMENT.release), ["x"], 1)
        )


def test_a_job_that_waits_long_for_its_machine_is_reported(vertex, capsys):
    """Once in `QUEUE_LIMIT`; an alert of deploy/terraform sends it on."""
    now = datetime.datetime.now(datetime.UTC)
    pending = [
        aiplatform.CustomJob(name=ONE, state="JOB_STATE_PENDING", create_time=now - waited)
        for waited in (jobs.QUEUE_LIMIT * 0.9, jobs.QUEUE_LIMIT * 1.1, jobs.QUEUE_LIMIT * 1.2)
    ]
    states = iter(pending)
    success = aiplatform.CustomJob(name=ONE, state="JOB_STATE_SUCCEEDED")
    vertex.answers["GetCustomJob"] = lambda _: next(states, success)
    jobs.run_to_end(SETTINGS, JOB)
    assert capsys.readouterr().err == f"{ONE}: has been queued for 4 hours\n"


def test_jobs_that_are_left_are_cancelled(vertex, capsys):
    jobs.cancel(SETTINGS, "x")
    assert not vertex.sent("CancelCustomJob")
    found = [
        aiplatform.CustomJob(name=f"{ONE}{n}", state=f"JOB_STATE_{state}")
        for n, state in enumerate(["SUCCEEDED", "RUNNING", "QUEUED"])
    ]
    vertex.answers["ListCustomJobs"] = aiplatform.ListCustomJobsResponse(custom_jobs=found)
    jobs.cancel(SETTINGS, "x")
    assert [request.name for request in vertex.sent("CancelCustomJob")] == [f"{ONE}1", f"{ONE}2"]
    assert capsys.readouterr().err.count("cancelled, as its pipeline has ended") == 2
