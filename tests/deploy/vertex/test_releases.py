"""Releases are deployed by their digests, and an earlier one is taken again as it was."""

import json

import pytest
from google.cloud import aiplatform_v1 as aiplatform
from support.cloud_samples import COMMIT, RELEASE, SETTINGS
from support.google_services import done_with_nothing, faults

from beambert.deploy.retraining.runs import Retraining
from beambert.deploy.settings import Deployment, Release, Settings
from beambert.deploy.vertex import command, pipeline, releases
from beambert.errors import InputError
from beambert.pipelines.storage import tensorflow_files

OLD = "projects/p/locations/r/schedules/1"
NEW = "projects/p/locations/r/schedules/2"


@pytest.fixture
def bucket(monkeypatch):
    """Files by path, in place of the configuration's bucket."""
    files = {}
    monkeypatch.setattr(tensorflow_files, "exists", files.__contains__)
    monkeypatch.setattr(tensorflow_files, "write_bytes", files.__setitem__)
    monkeypatch.setattr(tensorflow_files, "read_text", lambda path, flag="": files[path].decode())
    monkeypatch.setattr(Settings, "read", classmethod(lambda cls: SETTINGS))
    return files


@pytest.fixture
def vertex(services):
    old = aiplatform.Schedule(name=OLD)
    services.answers = {
        "ListSchedules": aiplatform.ListSchedulesResponse(schedules=[old]),
        "CreateSchedule": aiplatform.Schedule(name=NEW),
        "DeleteSchedule": done_with_nothing(),
    }
    return services


def build(bucket, tag):
    """Writes what the build of a release leaves."""
    digests = dict.fromkeys(RELEASE.digests, f"sha256:{tag[:1] * 64}")
    bucket[f"gs://my-bucket-config/builds/{tag}.json"] = json.dumps(digests).encode()


def test_deploying_writes_what_the_triggers_read(bucket, vertex):
    build(bucket, COMMIT)
    command.main([f"--release={COMMIT}", "deploy"])
    folder = f"gs://my-bucket-config/releases/{COMMIT}"
    names = ("retrain.toml", "deployment.json", "pipeline.json")
    written = {f"{folder}/{name}" for name in names} | {SETTINGS.pipeline}
    assert written == {path for path in bucket if "/builds/" not in path}
    config = Retraining.from_toml(bucket[f"{folder}/retrain.toml"].decode(), "retrain.toml")
    image = f"us-central1-docker.pkg.dev/my-project/beambert/beam@sha256:{'0' * 64}"
    assert config.data["sdk_container_image"] == image
    job = json.loads(bucket[SETTINGS.pipeline])
    assert job["serviceAccount"] == "beambert-pipeline@my-project.iam.gserviceaccount.com"
    assert job["pipelineSpec"]["pipelineInfo"]["name"] == pipeline.NAME
    text = json.dumps(job)
    assert image in text and f"--deployment={folder}/deployment.json" in text
    assert not any(word in text for word in ("_IMAGE", "_FILE", "BUCKET", "latest"))
    # The workflow posts this as it stands.
    assert faults(aiplatform.PipelineJob.from_json(bucket[SETTINGS.pipeline].decode())) == []
    (created,) = vertex.sent("CreateSchedule")
    assert created.schedule.cron == "TZ=UTC 0 3 * * *"
    assert [request.name for request in vertex.sent("DeleteSchedule")] == [OLD]


def test_an_earlier_release_comes_back_as_it_was(bucket, vertex):
    """With its images and its configuration, whatever the checkout has by now."""
    for tag in ("aaaa", "bbbb"):
        build(bucket, tag)
        command.main([f"--release={tag}", "deploy"])
    first = bucket["gs://my-bucket-config/releases/aaaa/pipeline.json"]
    assert bucket[SETTINGS.pipeline] != first
    assert releases.in_use(SETTINGS).release.tag == "bbbb"
    command.main(["rollback", "aaaa"])
    assert bucket[SETTINGS.pipeline] == first
    assert releases.in_use(SETTINGS).release.tag == "aaaa"
    one, _, three = (request.schedule for request in vertex.sent("CreateSchedule"))
    assert one == three


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--release=cccc", "deploy"], "--release=cccc: gs://.*builds/cccc.json is missing; build"),
        (["deploy"], "--release: is needed by `deploy`"),
        (["rollback", "cccc"], "cccc: was never deployed"),
        (["job", "--", "explore"], "retraining_pipeline.json: is missing; deploy a release first"),
    ],
)
def test_what_was_not_built_or_deployed(bucket, vertex, arguments, message):
    with pytest.raises(InputError, match=message):
        command.main(arguments)
    assert not vertex.requests and not bucket


def test_a_schedule_that_is_refused_leaves_what_is_in_use(bucket, vertex):
    import grpc

    build(bucket, "aaaa")
    command.main(["--release=aaaa", "deploy"])
    build(bucket, "bbbb")
    vertex.answers["CreateSchedule"] = grpc.StatusCode.PERMISSION_DENIED
    with pytest.raises(InputError, match="the schedule cannot be made"):
        command.main(["--release=bbbb", "deploy"])
    assert releases.in_use(SETTINGS).release.tag == "aaaa"
    assert len(vertex.sent("DeleteSchedule")) == 1


def test_show_sends_nothing(bucket, vertex, capsys):
    command.main(["--show", "--release=aaaa", "deploy"])
    shown = json.loads(capsys.readouterr().out)
    assert "beam:aaaa" in json.dumps(shown)
    command.main(["--show", "job", "--", "pretrain", "--data=x", "--model_dir=y"])
    shown = json.loads(capsys.readouterr().out)
    assert shown["job_spec"]["worker_pool_specs"][0]["container_spec"]["args"][0] == "pretrain"
    assert not vertex.requests and not bucket


def test_show_changes_nothing_that_is_in_use(bucket, vertex, capsys):
    """A rollback and the end of the schedule only look; what is shown is what is then sent."""
    for tag in ("aaaa", "bbbb"):
        build(bucket, tag)
        command.main([f"--release={tag}", "deploy"])
    before = dict(bucket)
    changes = len(vertex.sent("CreateSchedule")), len(vertex.sent("DeleteSchedule"))
    capsys.readouterr()
    command.main(["--show", "rollback", "aaaa"])
    shown = aiplatform.Schedule.from_json(capsys.readouterr().out)
    command.main(["--show", "stop"])
    assert capsys.readouterr().out == f"{OLD}: would be deleted\n"
    assert bucket == before
    assert (len(vertex.sent("CreateSchedule")), len(vertex.sent("DeleteSchedule"))) == changes
    assert faults(shown) == []
    command.main(["rollback", "aaaa"])
    assert vertex.sent("CreateSchedule")[-1].schedule == shown


@pytest.mark.parametrize("step", ["plan", "records", "evaluation", "serving", "release"])
def test_show_of_a_step_that_runs_here(bucket, vertex, capsys, step):
    command.main(["--show", f"--release={COMMIT}", "step", f"--step={step}", "--holder=h"])
    config = f"gs://my-bucket-config/releases/{COMMIT}/retrain.toml"
    expected = f"beambert retrain --config={config} --step={step} --holder=h\n"
    assert capsys.readouterr().out == expected
    assert not vertex.requests and not bucket


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND: missing"),
        (["job", "--", "pretrian", "--data=x"], "pretrian: is no command that a job could run"),
        (["job", "--", "pretrain", "--data=x"], "--model_dir: missing"),
        (["job", "--", "pretrain", "--data=x", "--model_dir=y", "--dtpye=z"], "--dtpye=z: no such"),
        (["job", "--hours=0", "--", "explore"], "--hours=0: must be at least 1"),
        (["serve", "runs/000001", "--share=101"], "--share=101: must be from 0 to 100$"),
        (["canary", "runs/000001", "--share=0"], "--share=0: must be from 1 to 99$"),
        (["--show", "canary", "runs/000001", "--share=10"], "show `serve` with the same --share"),
        (
            ["--show", "step", "--step=encoder"],
            "configuration of a release; name it with --release",
        ),
        (["--show", "step", "--step=register"], "configuration of a release; name it with --rel"),
        (["upload", "runs/000001"], "^runs/000001: is on this machine, .* a run under gs://"),
    ],
)
def test_what_would_fail_on_a_machine_that_costs(bucket, vertex, arguments, message):
    """A job of eight chips with a flag that is written wrong is not sent."""
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
@pytest.mark.parametrize("show", [[], ["--show"]])
def test_a_configuration_that_could_not_run_is_not_deployed(
    bucket, vertex, tmp_path, show, old, new, message
):
    """Each step runs on a machine of its own, which would find nothing, or refuse a value."""
    build(bucket, COMMIT)
    before, config = dict(bucket), tmp_path / "my.toml"
    config.write_text((releases.FOLDER / "retrain.toml").read_text().replace(old, new))
    with pytest.raises(InputError, match=f"--config.*: {message}"):
        command.main([*show, f"--release={COMMIT}", "deploy", f"--config={config}"])
    assert bucket == before and not vertex.requests


def test_placeholders_of_the_compiled_pipeline():
    """It is compiled once for all projects."""
    text = pipeline.FILE.read_text()
    assert "my-project" not in text and "image: BEAM_IMAGE" in text
    filled = Deployment(SETTINGS, Release("aaaa")).fill_in(text)
    assert "BEAM_IMAGE" not in filled and "DEPLOYMENT_FILE" not in filled
