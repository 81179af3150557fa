"""Jobs, schedules and the pipeline, against Vertex AI's own protocol and kfp's own checks."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import types

import pytest
import yaml
from google.cloud import aiplatform_v1 as aiplatform
from kfp import components
from support.absent_packages import BEAM_PACKAGES, without

from beambert.deploy.retraining import command as retrain
from beambert.deploy.retraining.runs import STEPS, Retraining
from beambert.deploy.settings import Settings
from beambert.deploy.vertex import jobs as vertex
from beambert.deploy.vertex import pipeline
from beambert.pipelines.shared.errors import InputError

ROOT = pathlib.Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
SETTINGS = Settings("my-project", "us-central1", "my-bucket", "a@b", "0 3 * * *", "v5e-8-spot")


@pytest.mark.parametrize("trainer", vertex.TRAINERS)
def test_jobs_are_what_vertex_takes(trainer):
    """A field or an accelerator that its protocol doesn't have raises."""
    settings = Settings(**vars(SETTINGS) | {"trainer": trainer})
    arguments = vertex.step_arguments(settings, "encoder")
    job = aiplatform.CustomJob(vertex.custom_job(settings, "encoder", arguments))
    (pool,) = job.job_spec.worker_pool_specs
    is_tpu = trainer.startswith("v5e")
    assert (pool.machine_spec.accelerator_count == 0) == is_tpu
    assert pool.container_spec.image_uri.endswith("trainer-tpu:latest") == is_tpu
    flags = retrain.build_parser().parse_args(list(pool.container_spec.args)[1:])
    assert (flags.step, flags.config) == ("encoder", "gs://my-bucket/retrain.toml")
    scheduling = job.job_spec.scheduling
    spot = aiplatform.Scheduling.Strategy.SPOT
    assert (scheduling.strategy == spot) == trainer.endswith("spot")
    assert scheduling.restart_job_on_worker_restart == trainer.endswith("spot")


def test_topologies_have_the_machines_chips():
    """ct5lp-hightpu-Nt is a host with N chips."""
    for trainer in vertex.TRAINERS.values():
        if chips := re.fullmatch(r"ct5lp-hightpu-(\d)t", trainer.machine["machine_type"]):
            rows, columns = map(int, trainer.machine["tpu_topology"].split("x"))
            assert rows * columns == int(chips[1])


def test_unknown_trainer():
    with pytest.raises(InputError, match="trainer v6e; choose one of v5e-1"):
        vertex.custom_job(Settings(**vars(SETTINGS) | {"trainer": "v6e"}), "x", [])


def test_schedule_is_what_vertex_takes():
    spec = yaml.safe_load(pipeline.FILE.read_text())
    schedule = aiplatform.Schedule(vertex.schedule(SETTINGS, spec))
    assert schedule.max_concurrent_run_count == 1 and schedule.cron == "TZ=UTC 0 3 * * *"
    job = schedule.create_pipeline_job_request.pipeline_job
    assert job.pipeline_spec["pipelineInfo"]["name"] == pipeline.NAME
    assert len(vertex.schedule(SETTINGS, spec)["cron"].split()) == 6  # the zone, and five fields


RESULT = {"outcome": "published", "version": 3, "accuracy": 0.9, "reasons": ["better"]}
METRICS = {
    **{"task": "sst-2", "split": "dev", "labels": ["0", "1"], "blessed": True},
    "weights_sha256": "abc",
    "overall": {"accuracy": 0.9, "cross_entropy": 0.3, "macro_f1": 0.9},
    "details": {"confusion_matrix": [[45, 5], [5, 45]]},
}


def test_models_are_what_vertex_takes():
    model = aiplatform.Model(vertex.model(SETTINGS, "gs://b/w/runs/000003", RESULT))
    # Serving takes the highest number in its folder, so it has the version of this run alone.
    assert model.artifact_uri == "gs://b/w/runs/000003/registered"
    # https://cloud.google.com/vertex-ai/docs/model-registry/model-alias
    assert re.fullmatch("[a-z][a-zA-Z0-9-]{0,126}[a-z0-9]", *model.version_aliases)
    # Vertex takes images of Artifact Registry only.
    assert model.container_spec.image_uri.startswith("us-central1-docker.pkg.dev/my-project/")
    assert dict(model.labels) == {"run": "000003", "version": "3"}
    for value in [*model.labels, *model.labels.values()]:
        assert re.fullmatch("[a-z0-9_-]{1,63}", value)
    evaluation = aiplatform.ModelEvaluation(vertex.model_evaluation(METRICS))
    assert evaluation.metrics["confusionMatrix"]["rows"][0]["row"] == [45, 5]
    assert vertex.model_evaluation(METRICS | {"details": {}}) is None


def test_a_refused_model_is_not_uploaded():
    with pytest.raises(InputError, match="published nothing .worse"):
        vertex.model(SETTINGS, "w/runs/000001", RESULT | {"version": None, "reasons": ["worse"]})


def test_show_sends_nothing(tmp_path, capsys):
    run = tmp_path / "w" / "runs" / "000003"
    (run / "evaluation").mkdir(parents=True)
    (run / "result.json").write_text(json.dumps(RESULT))
    (run / "evaluation" / "metrics.json").write_text(json.dumps(METRICS))
    vertex.main(["--show", "upload", str(run)])
    assert json.loads(capsys.readouterr().out)[0]["labels"]["version"] == "3"
    vertex.main(["--show", "job", "--", "pretrain", "--data=x"])
    shown = json.loads(capsys.readouterr().out)
    assert shown["job_spec"]["worker_pool_specs"][0]["container_spec"]["args"][0] == "pretrain"


class Client:
    """Stands in for Vertex's clients: keeps what it is sent, and jobs end when asked for again."""

    sent = []
    jobs = []
    models = []
    end = "JOB_STATE_SUCCEEDED"

    def __init__(self, client_options):
        assert client_options["api_endpoint"].endswith("-aiplatform.googleapis.com")

    def list_custom_jobs(self, request):
        return self.jobs

    def create_custom_job(self, parent, custom_job):
        self.sent.append(aiplatform.CustomJob(custom_job))
        return aiplatform.CustomJob(name="new", state="JOB_STATE_PENDING")

    def get_custom_job(self, name):
        return aiplatform.CustomJob(name=name, state=self.end, error={"message": "no quota"})

    def cancel_custom_job(self, name):
        self.sent.append(f"cancel {name}")

    def list_models(self, request):
        assert request["filter"] == 'display_name="beambert"'
        return [aiplatform.Model(name=name) for name in self.models]

    def upload_model(self, request):
        self.sent.append(aiplatform.UploadModelRequest(request))
        done = aiplatform.UploadModelResponse(model="projects/p/locations/r/models/1")
        return types.SimpleNamespace(result=lambda: done)

    def import_model_evaluation(self, parent, model_evaluation):
        self.sent.append((parent, aiplatform.ModelEvaluation(model_evaluation)))

    def list_schedules(self, request):
        return [aiplatform.Schedule(name="old")]

    def create_schedule(self, parent, schedule):
        self.sent.append(aiplatform.Schedule(schedule))
        return aiplatform.Schedule(name="new")

    def delete_schedule(self, name):
        self.sent.append(name)


@pytest.fixture
def client(monkeypatch):
    class Service:
        JobServiceClient = ScheduleServiceClient = ModelServiceClient = Client

    monkeypatch.setattr(Client, "sent", [])
    monkeypatch.setattr(vertex, "SECONDS_BETWEEN_LOOKS", 0)
    monkeypatch.setattr(
        vertex,
        "_clients",
        lambda settings: (Service, {"api_endpoint": "r-aiplatform.googleapis.com"}),
    )
    return Client


def test_a_step_that_is_repeated_waits_for_the_job_at_work(client, monkeypatch, capsys):
    """As after the component that began it was lost."""
    job = vertex.custom_job(SETTINGS, "beambert-encoder", [])
    done = aiplatform.CustomJob(name="done", state="JOB_STATE_FAILED")
    monkeypatch.setattr(client, "jobs", [done])
    vertex.run_job(SETTINGS, job)
    assert len(client.sent) == 1
    running = aiplatform.CustomJob(name="running", state="JOB_STATE_RUNNING")
    monkeypatch.setattr(client, "jobs", [done, running])
    vertex.run_job(SETTINGS, job)
    assert len(client.sent) == 1 and "running: waiting" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "ended", "sent"),
    [(signal.SIGTERM, SystemExit, ["cancel new"]), (signal.SIGINT, KeyboardInterrupt, [])],
    ids=["SIGTERM", "Ctrl-C"],
)
def test_a_signal_while_waiting(client, monkeypatch, capsys, number, ended, sent):
    """A cancelled pipeline leaves no accelerators at work; Ctrl-C only ends the wait."""
    monkeypatch.setattr(client, "end", "JOB_STATE_RUNNING")
    sleeps = iter([lambda: os.kill(os.getpid(), number)])  # another sleep is an error
    monkeypatch.setattr(vertex.time, "sleep", lambda _: next(sleeps)())
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ended):
        vertex.run_job(SETTINGS, vertex.custom_job(SETTINGS, "x", []))
    assert client.sent[1:] == sent
    assert capsys.readouterr().err.startswith("new: ")
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("older", [[], ["projects/p/locations/r/models/1"]])
def test_upload_registers_a_version_of_one_model(client, monkeypatch, tmp_path, older):
    run = tmp_path / "w" / "runs" / "000003"
    for name, found in (("result.json", RESULT), ("evaluation/metrics.json", METRICS)):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(json.dumps(found))
    for version in ("3", "4"):  # the fourth is another run's
        (tmp_path / "w" / "serving" / version).mkdir(parents=True)
        (tmp_path / "w" / "serving" / version / "saved_model.pb").write_text(version)
    monkeypatch.setattr(client, "models", older)
    for _ in range(2):
        vertex.upload(SETTINGS, str(run), show=False)
    request, (parent, _) = client.sent[:2]
    assert [request.parent_model] == (older or [""])
    assert parent == "projects/p/locations/r/models/1"
    there = [str(p.relative_to(tmp_path)) for p in (run / "registered").rglob("*.pb")]
    assert there == ["w/runs/000003/registered/3/saved_model.pb"]


def test_a_job_that_fails(client, monkeypatch):
    monkeypatch.setattr(client, "end", "JOB_STATE_FAILED")
    with pytest.raises(InputError, match="new: JOB_STATE_FAILED .no quota"):
        vertex.run_job(SETTINGS, vertex.custom_job(SETTINGS, "x", []))


def test_deploy_writes_what_the_triggers_read(client, monkeypatch):
    from beambert.pipelines.storage import tensorflow_files

    written = {}
    monkeypatch.setattr(tensorflow_files, "write_bytes", written.__setitem__)
    settings = Settings.read()
    vertex.deploy(settings, show=False)
    assert set(written) == {settings.config, settings.pipeline}
    Retraining.from_toml(written[settings.config].decode(), "retrain.toml")
    job = json.loads(written[settings.pipeline])
    assert job["serviceAccount"] == "beambert-pipeline@my-project.iam.gserviceaccount.com"
    assert job["pipelineSpec"]["pipelineInfo"]["name"] == pipeline.NAME
    assert aiplatform.PipelineJob.from_json(written[settings.pipeline].decode()).runtime_config
    schedule, deleted = client.sent
    assert schedule.cron == "TZ=UTC 0 3 * * *" and deleted == "old"


@pytest.mark.parametrize("name", ["project", "region", "bucket"])
def test_a_pipeline_of_other_names_is_not_deployed(client, name):
    settings = Settings(**vars(Settings.read()) | {name: "other"})
    with pytest.raises(InputError, match="compiled for other names .*make deploy-files"):
        vertex.deploy(settings, show=True)
    assert client.sent == []


def executors(text):
    return {
        name.removeprefix("exec-"): value["container"]
        for name, value in yaml.safe_load(text)["deploymentSpec"]["executors"].items()
    }


def test_committed_pipeline_is_the_compiled_one(tmp_path):
    """After a change: python -m beambert.deploy.vertex.pipeline."""
    pipeline.compile_to(tmp_path / "pipeline.yaml", Settings.read())
    assert pipeline.FILE.read_text() == (tmp_path / "pipeline.yaml").read_text()


def test_pipeline_is_one_that_kfp_loads():
    loaded = components.load_component_from_file(str(pipeline.FILE))
    assert loaded.name == pipeline.NAME


def test_components_are_commands():
    settings = Settings.read()
    found = executors(pipeline.FILE.read_text())
    assert set(found) == {"plan", *STEPS, "release"}
    for step, container in found.items():
        assert container["image"] == settings.image("beam")
        words = [*container["command"], *container["args"]]
        if step in pipeline.ON_ACCELERATORS:
            assert words[:3] == ["python", "-m", "beambert.deploy.vertex"]
            flags = vertex.build_parser().parse_args(words[3:])
        else:
            assert words[:2] == ["beambert", "retrain"]
            flags = retrain.build_parser().parse_args(words[2:])
            assert flags.holder == "{{$.inputs.parameters['holder']}}"
        assert flags.step == step


def test_steps_follow_one_another():
    spec = yaml.safe_load(pipeline.FILE.read_text())
    tasks = spec["components"]["comp-condition-2"]["dag"]["tasks"]
    for before, step in zip(STEPS, STEPS[1:], strict=False):
        assert tasks[step]["dependentTasks"] == [before]
    text = json.dumps(spec)
    assert "== 'new'" in text
    handler = spec["root"]["dag"]["tasks"]["release"]
    assert handler["triggerPolicy"]["strategy"] == "ALL_UPSTREAM_TASKS_COMPLETED"


def test_configuration_is_one_when_it_is_filled_in():
    text = SETTINGS.fill_in((DEPLOY / "retrain.toml").read_text())
    config = Retraining.from_toml(text, "retrain.toml")
    assert config.workspace == "gs://my-bucket/retraining"
    assert not re.search("BUCKET|PROJECT|REGION", text.partition("\n\n")[2].replace("# ", ""))


def test_settings(tmp_path):
    path = tmp_path / "terraform.tfvars"
    path.write_text((DEPLOY / "terraform" / "terraform.tfvars").read_text() + 'zone = "a"\n')
    with pytest.raises(InputError, match="correct zone"):
        Settings.read(path)


def test_trainer_images_have_the_versions_that_are_tested():
    dockerfile = (DEPLOY / "vertex" / "Dockerfile").read_text()
    assert "--no-deps -r requirements-tpu.lock" in dockerfile
    assert "--no-deps -r requirements.lock" in dockerfile
    locked = (ROOT / "requirements-tpu.lock").read_text()
    assert re.search(r"^libtpu==0\.0\.21$", locked, re.MULTILINE)


@pytest.mark.parametrize("image", ["vertex", "dataflow"])
def test_images_install_what_is_locked_before_the_repository_is_there(image, tmp_path):
    """pip refuses the line of the lock file that names the repository where there is none."""
    dockerfile = (DEPLOY / image / "Dockerfile").read_text()
    (clean,) = re.findall(r"^RUN (sed -i .* requirements\.lock) ", dockerfile, re.MULTILINE)
    before = (ROOT / "requirements.lock").read_text()
    (tmp_path / "requirements.lock").write_text(before)
    subprocess.run(clean, shell=True, cwd=tmp_path, check=True)
    after = (tmp_path / "requirements.lock").read_text()
    assert after.splitlines() == [line for line in before.splitlines() if line != "."]


@pytest.mark.slow
def test_steps_need_no_beam_where_they_train():
    readers = ("datasketch", "mwparserfromhell", "pyarrow", "sentencex", "zstandard")
    locked = (ROOT / "requirements-tpu.lock").read_text()
    assert not [name for name in readers if re.search(rf"^{name}\b", locked, re.MULTILINE)]
    code = (
        without((*BEAM_PACKAGES, *readers, "matplotlib", "kfp"))
        + """
import beambert.deploy.retraining.command
from beambert.deploy.retraining import workspace
workspace.read_config("deploy/retrain.toml")  # with the parsers of all commands
print("read")
"""
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "read", done.stderr


# The machine is there once it was created; the command ends with the next of the statuses.
GCLOUD = """\
#!/usr/bin/env bash
cd "$(dirname "$0")"
echo "$4" >> calls
case "$4" in
  create) touch machine ;;
  delete) rm -f machine ;;
  describe) [ -e machine ] && echo READY || exit 1 ;;
  ssh)
    printf '%s' "${@: -1}" > "command$(wc -l < calls)"
    status=$(head -1 statuses); sed -i 1d statuses
    [ "$status" = 255 ] && rm -f machine; exit "$status" ;;
esac
"""


def run_on_tpu_machine(folder, statuses):
    (folder / "gcloud").write_text(GCLOUD)
    (folder / "gcloud").chmod(0o755)
    (folder / "statuses").write_text("".join(f"{status}\n" for status in statuses))
    return subprocess.run(
        [DEPLOY / "vertex" / "tpu_vm.sh", "pretrain", "--data=gs://b/a b"],
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "PAUSE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_tpu_machine_that_is_taken_back(tmp_path):
    """It is made again, gets the same command again, and is deleted in the end."""
    done = run_on_tpu_machine(tmp_path, [255, 0])
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text().split()
    assert calls.count("create") == 2 and calls[-1] == "delete"
    first, second = (path.read_text() for path in tmp_path.glob("command*"))
    assert first == second


@pytest.mark.parametrize("status", [1, 2, 143])
def test_a_command_that_fails_on_a_tpu_machine_ends_it(tmp_path, status):
    done = run_on_tpu_machine(tmp_path, [status])
    assert done.returncode == status, done.stderr
    calls = (tmp_path / "calls").read_text().split()
    assert calls.count("ssh") == 1 and calls[-1] == "delete"


def test_machines_that_are_always_taken_back(tmp_path):
    done = run_on_tpu_machine(tmp_path, [255] * 30)
    assert done.returncode == 255
    assert done.stderr.splitlines()[-1].startswith("no TPU VM lasted long enough in 20 tries")
    assert (tmp_path / "calls").read_text().split()[-1] == "delete"


# What the machine has: the metadata server answers as Google's, and docker tells what it was given.
MACHINE = {
    "curl": """#!/bin/sh
echo '{"access_token":"ya29.a-b_c","expires_in":3599,"token_type":"Bearer"}'
""",
    "sudo": """#!/bin/sh
exec "$@"
""",
    "docker": """#!/bin/sh
if [ "$1" = login ]; then cat > password; exit 0; fi
printf '%s\\n' "$@" > arguments
exit 3
""",
}


def test_command_on_the_tpu_machine(tmp_path):
    """It is the trainer's image that runs, with the arguments as they were given."""
    run_on_tpu_machine(tmp_path, [0])
    (command,) = tmp_path.glob("command*")
    for name, text in MACHINE.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", f"cd {tmp_path} && {command.read_text().removeprefix('--command=')}"],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=False,
    )
    assert done.returncode == 3
    assert (tmp_path / "password").read_text().strip() == "ya29.a-b_c"
    arguments = (tmp_path / "arguments").read_text().splitlines()
    image = Settings.read().image("trainer-tpu")
    assert arguments[arguments.index(image) :] == [image, "pretrain", "--data=gs://b/a b"]
    assert "--privileged" in arguments


def test_tpu_machine_whose_command_must_be_mended(tmp_path):
    assert run_on_tpu_machine(tmp_path, [2]).returncode == 2
    assert (tmp_path / "calls").read_text().split()[-1] == "delete"
