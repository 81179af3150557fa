"""Requests to Vertex AI against its own protocol: jobs, releases, the pipeline."""

import dataclasses
import datetime
import json
import os
import pathlib
import signal

import pytest
from google.api_core.exceptions import PermissionDenied
from google.cloud import aiplatform_v1 as aiplatform
from support import growing_corpus as corpus
from support.cloud_samples import DEPLOYMENT, RELEASE, SETTINGS
from support.stand_in_commands import served

from beambert import folders, io
from beambert.deploy import __main__ as command
from beambert.deploy import google_cloud
from beambert.deploy.retraining import workspace
from beambert.deploy.retraining.runs import Retraining, next_run
from beambert.deploy.settings import Deployment, Settings
from beambert.deploy.vertex import jobs, releases
from beambert.errors import InputError

JOB = jobs.job_by_hand(DEPLOYMENT, ["pretrain"], 5)
CONFIG = str(pathlib.Path(__file__).parents[2] / "deploy" / "retrain.toml")
ONE = "projects/p/locations/r/customJobs/1"


def custom_job(state, code=0, message=""):
    error = {"code": code, "message": message}
    now = datetime.datetime.now(datetime.UTC)
    return aiplatform.CustomJob(name=ONE, state=f"JOB_STATE_{state}", error=error, create_time=now)


@pytest.fixture
def vertex(services, monkeypatch):
    """Vertex without a job, whose jobs succeed, and with an old schedule."""
    monkeypatch.setattr(jobs, "SECONDS_BETWEEN_LOOKS", 0)
    services.answers = {
        "list_custom_jobs": [],
        "create_custom_job": custom_job("PENDING"),
        "get_custom_job": custom_job("SUCCEEDED"),
        "cancel_custom_job": None,
        "list_schedules": [aiplatform.Schedule(name="old")],
        "create_schedule": aiplatform.Schedule(name="new"),
        "delete_schedule": None,
    }
    return services


@pytest.fixture
def bucket(monkeypatch):
    """The bucket of the configuration: path -> content."""
    files = {}
    monkeypatch.setattr(io, "exists", files.__contains__)
    monkeypatch.setattr(io, "read_text", lambda path, *_: files[path].decode())
    monkeypatch.setattr(io, "write_bytes", files.__setitem__)
    monkeypatch.setattr(Settings, "read", lambda: SETTINGS)
    monkeypatch.setattr(google_cloud, "session", lambda _: None)
    return files


@pytest.mark.parametrize("trainer", jobs.TRAINERS)
def test_jobs_are_what_vertex_takes(trainer):
    deployment = Deployment(dataclasses.replace(SETTINGS, trainer=trainer), RELEASE)
    if trainer.startswith("v6e"):
        with pytest.raises(InputError, match="has no TensorFlow"):
            jobs.custom_job(deployment, "encoder", ["pretrain"], 1)
        settings = dataclasses.replace(deployment.settings, engine="jax")
        deployment = Deployment(settings, RELEASE)
    job = aiplatform.CustomJob(jobs.custom_job(deployment, "encoder", ["pretrain"], 1))
    (pool,) = job.job_spec.worker_pool_specs
    is_tpu = trainer.startswith("v")
    assert (pool.machine_spec.accelerator_count == 0) == is_tpu
    assert ("-tpu@sha256:" in pool.container_spec.image_uri) == is_tpu
    spot = aiplatform.Scheduling.Strategy.SPOT
    assert (job.job_spec.scheduling.strategy == spot) == trainer.endswith("spot")
    if is_tpu:  # ct5lp-hightpu-Nt is a host with N chips
        rows, columns = map(int, pool.machine_spec.tpu_topology.split("x"))
        assert f"-{rows * columns}t" in pool.machine_spec.machine_type


def test_jobs_of_runs_steps_and_workspaces_have_different_names(tmp_path):
    one = workspace.read_config(str(corpus.write_config(tmp_path)))
    other = Retraining(**vars(one) | {"workspace": "elsewhere"})
    names = [
        aiplatform.CustomJob(jobs.step_job(DEPLOYMENT, config, run, step)).display_name
        for config in (one, other)
        for run in (next_run(config, (), number, 1) for number in (1, 2))
        for step in jobs.ON_ACCELERATORS
    ]
    assert len(set(names)) == len(names)


def test_a_job_runs_to_its_end(vertex):
    jobs.run_to_end(SETTINGS, JOB)
    (created,) = vertex.sent("create_custom_job")
    assert created.parent == "projects/my-project/locations/us-central1"
    assert created.custom_job == aiplatform.CustomJob(JOB)


def test_a_repeated_step_waits_for_the_job_at_work(vertex):
    vertex.answers["list_custom_jobs"] = [custom_job("FAILED"), custom_job("RUNNING")]
    jobs.run_to_end(SETTINGS, JOB)
    assert not vertex.sent("create_custom_job") and vertex.sent("get_custom_job")


@pytest.mark.parametrize("failing", ["list_custom_jobs", "create_custom_job", "get_custom_job"])
def test_a_service_that_refuses(vertex, failing):
    """If the list can't be read, nothing is started: a job may be at work."""
    vertex.answers[failing] = PermissionDenied("no")
    with pytest.raises(InputError, match=JOB["display_name"]):
        jobs.run_to_end(SETTINGS, JOB)
    assert len(vertex.sent("create_custom_job")) == (failing != "list_custom_jobs")


def test_sigterm_leaves_no_accelerators_at_work(vertex):
    def terminate(_):
        vertex.answers["list_custom_jobs"] = [custom_job("SUCCEEDED"), custom_job("RUNNING")]
        os.kill(os.getpid(), signal.SIGTERM)
        return custom_job("RUNNING")

    vertex.answers["get_custom_job"] = terminate
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        jobs.run_to_end(SETTINGS, JOB)
    assert ended.value.code == 143 and signal.getsignal(signal.SIGTERM) == before
    assert [request.name for request in vertex.sent("cancel_custom_job")] == [ONE]


@pytest.mark.parametrize(
    ("code", "message"), [(3, "exited with a non-zero status of 2."), (7, "no quota")]
)
def test_a_job_that_fails_is_not_repeated(vertex, code, message):
    vertex.answers["get_custom_job"] = custom_job("FAILED", code, message)
    with pytest.raises(InputError, match=message):
        jobs.run_to_end(SETTINGS, JOB)
    assert len(vertex.sent("create_custom_job")) == 1


def test_spot_first_then_on_demand(vertex):
    """The command continues from its last checkpoint, so no machine's work is lost."""
    ends = iter([custom_job("FAILED", code, "gone") for code in (14, 14, 8)])
    vertex.answers["get_custom_job"] = lambda _: next(ends, custom_job("SUCCEEDED"))
    jobs.run_to_end(SETTINGS, JOB)
    sent = [r.custom_job.job_spec.scheduling for r in vertex.sent("create_custom_job")]
    assert [each.strategy.name for each in sent] == ["SPOT"] * 3 + ["STANDARD"]
    assert not sent[-1].restart_job_on_worker_restart
    on_demand = sent[-1]
    vertex.answers["get_custom_job"] = custom_job("FAILED", 14, "gone")
    with pytest.raises(InputError, match="gone"):
        jobs.run_to_end(SETTINGS, jobs._on_demand(JOB))
    assert vertex.sent("create_custom_job")[-1].custom_job.job_spec.scheduling == on_demand


def test_no_machine_for_a_day(vertex):
    job = custom_job("PENDING")
    job.create_time = datetime.datetime.now(datetime.UTC) - 2 * jobs.QUEUE_LIMIT
    vertex.answers["get_custom_job"] = job
    with pytest.raises(InputError, match="no machine was free"):
        jobs.run_to_end(SETTINGS, JOB)
    assert len(vertex.sent("cancel_custom_job")) == 1


@pytest.mark.slow
def test_releases(bucket, vertex):
    """What is deployed last is in use; `start` sends it."""
    for tag in ("aaaa", "bbbb", "aaaa"):
        digests = dict.fromkeys(RELEASE.digests, f"sha256:{tag}")
        path = f"gs://my-project-beambert-config/builds/{tag}/tensorflow-tpu.json"
        bucket[path] = json.dumps(digests).encode()
        releases.deploy(releases.find(SETTINGS, tag), CONFIG)
        assert releases.in_use(SETTINGS).release.tag == tag
    one, _, three = (request.schedule for request in vertex.sent("create_schedule"))
    assert one == three and one.cron == "TZ=UTC 0 * * * *" and one.max_concurrent_run_count == 1
    assert [request.name for request in vertex.sent("delete_schedule")] == ["old"] * 3
    vertex.answers["create_schedule"] = PermissionDenied("no")
    with pytest.raises(InputError, match="the schedule cannot be made"):
        releases.deploy(releases.find(SETTINGS, "bbbb"), CONFIG)
    assert releases.in_use(SETTINGS).release.tag == "aaaa"
    vertex.answers["create_pipeline_job"] = aiplatform.PipelineJob(name="started")
    command.main(["start"])
    (started,) = vertex.sent("create_pipeline_job")
    assert started.pipeline_job == one.create_pipeline_job_request.pipeline_job


def test_the_pipeline_does_a_run():
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2

    spec = releases.make_pipeline(DEPLOYMENT)
    json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())  # raises on unknown fields
    ((_, executor),) = spec["deploymentSpec"]["executors"].items()
    assert executor["container"]["image"] == DEPLOYMENT.image("component")
    flags = command.build_parser().parse_args(executor["container"]["command"][3:])
    assert flags.kind == "retrain" and flags.deployment == DEPLOYMENT.file
    assert "retryPolicy" not in json.dumps(spec)


def test_a_run_trains_on_accelerators(tmp_path, monkeypatch, commands, capsys):
    corpus.deliver(tmp_path, 1)
    config = workspace.read_config(str(corpus.write_config(tmp_path)))
    sent = []

    def run_to_end(_, job):
        step = job["labels"]["step"]
        sent.append(step)
        commands(step, job["job_spec"]["worker_pool_specs"][0]["container_spec"]["args"])

    monkeypatch.setattr(command, "read_config", lambda _: config)
    monkeypatch.setattr(jobs, "run_to_end", run_to_end)
    (tmp_path / "deployment.json").write_text(DEPLOYMENT.to_json())
    arguments = ["retrain", f"--deployment={tmp_path}/deployment.json"]
    with folders.lock_held(f"{config.workspace}/LOCK", "x"):
        command.main(arguments)
    assert "is at work" in capsys.readouterr().out and not sent
    command.main(arguments)
    assert sent == [*jobs.ON_ACCELERATORS] and [*served(config)] == ["1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["start"], "retraining_pipeline.json: is missing"),
        (["job", "--", "pretrain", "--data=x", "--model_dir=y", "--dtpye=z"], "--dtpye=z"),
        (["job", "--", "data", "--input=x"], "data: does not run on the trainer"),
    ],
)
def test_what_would_fail_on_a_machine_that_costs(bucket, vertex, arguments, message):
    with pytest.raises(InputError, match=message):
        command.main(arguments)
    assert not vertex.requests and not bucket


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gs://BUCKET-work/retraining", "/srv/runs", "workspace: /srv/runs: is on this machine"),
        ("/gcs/BUCKET-config/glue", "glue", "finetune.data_dir: glue/SST-2: is on this machine"),
        ("= 20000", "= -2", "pretrain: --num_train_steps=-2: must be"),
    ],
)
def test_a_configuration_that_could_not_run_is_not_deployed(tmp_path, old, new, message):
    config = tmp_path / "my.toml"
    config.write_text(pathlib.Path(CONFIG).read_text().replace(old, new))
    with pytest.raises(InputError, match=f"--config.*: {message}"):
        releases.read_config(DEPLOYMENT, str(config))


def test_stop_leaves_nothing_at_work(bucket, vertex):
    vertex.answers |= {
        "list_pipeline_jobs": [aiplatform.PipelineJob(name="p")],
        "cancel_pipeline_job": None,
        "list_jobs": [],
        "list_custom_jobs": [custom_job("SUCCEEDED"), custom_job("RUNNING")],
    }
    command.main(["stop"])
    assert [r.name for r in vertex.sent("delete_schedule")] == ["old"]
    assert [r.name for r in vertex.sent("cancel_pipeline_job")] == ["p"]
    assert [r.name for r in vertex.sent("cancel_custom_job")] == [ONE]
