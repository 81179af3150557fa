"""Requests to Vertex AI, against its own protocol."""

import pathlib
import re

import pytest
import yaml
from google.cloud import aiplatform_v1 as aiplatform
from support import growing_corpus as corpus
from support.cloud_samples import COMMIT, DEPLOYMENT, METRICS, RELEASE, RESULT, SETTINGS
from support.google_services import faults

from beambert.commands import COMMANDS
from beambert.deploy.retraining import command as retrain
from beambert.deploy.retraining import runs, workspace
from beambert.deploy.retraining.runs import STEPS, Retraining, next_run
from beambert.deploy.settings import Deployment, Release, Settings
from beambert.deploy.vertex import command, machines, pipeline, requests
from beambert.errors import InputError

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"


@pytest.mark.parametrize("trainer", machines.TRAINERS)
def test_jobs_are_what_vertex_takes(trainer):
    """A field or an accelerator that its protocol doesn't have raises."""
    deployment = Deployment(Settings(**vars(SETTINGS) | {"trainer": trainer}), RELEASE)
    arguments = requests.step_arguments(deployment.config, "encoder")
    job = aiplatform.CustomJob(requests.custom_job(deployment, "encoder", arguments))
    assert faults(job) == []
    (pool,) = job.job_spec.worker_pool_specs
    is_tpu = trainer.startswith("v5e")
    assert (pool.machine_spec.accelerator_count == 0) == is_tpu
    assert ("/trainer-tpu@sha256:" in pool.container_spec.image_uri) == is_tpu
    flags = retrain.build_parser().parse_args(list(pool.container_spec.args)[1:])
    assert flags.step == "encoder"
    assert flags.config == f"gs://my-bucket-config/releases/{COMMIT}/retrain.toml"
    scheduling = job.job_spec.scheduling
    spot = aiplatform.Scheduling.Strategy.SPOT
    assert (scheduling.strategy == spot) == trainer.endswith("spot")
    assert scheduling.restart_job_on_worker_restart == trainer.endswith("spot")


def test_a_training_that_a_tensorboard_shows(tmp_path, monkeypatch):
    """Vertex reads the events where the trainer writes them; checkpoints stay where they were."""
    name = "projects/my-project/locations/us-central1/tensorboards/7"
    settings = Settings(**vars(SETTINGS) | {"tensorboard": name, "training_regions": ("us-west4",)})
    config = workspace.read_config(str(corpus.write_config(tmp_path)))
    config = Retraining(**vars(config) | {"workspace": "gs://b/w"})
    run = next_run(config, (), 1, 1)
    job = requests.step_job(Deployment(settings, RELEASE), config, run, "encoder")
    sent = aiplatform.CustomJob(job)
    assert faults(sent) == [] and sent.job_spec.tensorboard == name
    base = sent.job_spec.base_output_directory.output_uri_prefix
    assert base == "gs://b/w/runs/000001/tensorboard/encoder"
    # https://cloud.google.com/vertex-ai/docs/training/code-requirements#environment-variables
    monkeypatch.setenv("AIP_CHECKPOINT_DIR", f"{base}/checkpoints/")
    monkeypatch.setenv("AIP_TENSORBOARD_LOG_DIR", f"{base}/logs/")
    words = runs.command("encoder", config, run)
    flags = COMMANDS["pretrain"].build_parser().parse_args(words[1:])
    assert flags.tensorboard_dir == f"{base}/logs/"
    assert flags.checkpoint_dir == "gs://b/w/runs/000001/encoder/checkpoints"
    # It takes no events from elsewhere.
    elsewhere = aiplatform.CustomJob(requests.in_region(job, settings, "us-west4"))
    assert not elsewhere.job_spec.tensorboard and faults(elsewhere) == []
    assert requests.in_region(job, settings, "us-central1") == job
    # Without one nothing changes.
    plain = aiplatform.CustomJob(requests.step_job(DEPLOYMENT, config, run, "encoder"))
    assert "base_output_directory" not in plain.job_spec and not plain.job_spec.tensorboard


def test_topologies_have_the_machines_chips():
    """ct5lp-hightpu-Nt is a host with N chips."""
    for trainer in machines.TRAINERS.values():
        if chips := re.fullmatch(r"ct5lp-hightpu-(\d)t", trainer.machine["machine_type"]):
            rows, columns = map(int, trainer.machine["tpu_topology"].split("x"))
            assert rows * columns == int(chips[1])


def test_unknown_trainer():
    settings = Settings(**vars(SETTINGS) | {"trainer": "v6e"})
    with pytest.raises(InputError, match="trainer v6e; choose one of v5e-1"):
        requests.custom_job(Deployment(settings, RELEASE), "x", [])


def test_jobs_of_steps_are_told_apart(tmp_path):
    """By run, step and workspace; a job of another workspace must not be taken for one's own."""
    one = workspace.read_config(str(corpus.write_config(tmp_path)))
    other = Retraining(**vars(one) | {"workspace": "elsewhere"})
    jobs = [
        aiplatform.CustomJob(requests.step_job(DEPLOYMENT, config, run, step))
        for config in (one, other)
        for run in (next_run(config, (), number, 1) for number in (1, 2))
        for step in requests.ON_ACCELERATORS
    ]
    assert len({job.display_name for job in jobs}) == len(jobs)
    assert len({tuple(sorted(job.labels.items())) for job in jobs}) == len(jobs)
    for job in jobs:
        assert faults(job) == [] and job.labels["app"] == "beambert"
    hours = [job.job_spec.scheduling.timeout.total_seconds() / 3600 for job in jobs[:2]]
    # Fine-tuning takes minutes, pre-training base at most 17 hours.
    assert 17 < hours[0] <= 96 and hours[1] <= 12


def test_a_job_by_hand_has_a_name_of_its_own():
    one, other, same = (
        requests.job_by_hand(DEPLOYMENT, ["pretrain", f"--data={name}"], 5)
        for name in ("gs://b/x", "gs://b/y", "gs://b/x")
    )
    assert one["display_name"] != other["display_name"] and one == same
    assert faults(aiplatform.CustomJob(one)) == []


def test_schedule_is_what_vertex_takes():
    spec = yaml.safe_load(DEPLOYMENT.fill_in(pipeline.FILE.read_text()))
    job = requests.pipeline_job(DEPLOYMENT, spec)
    schedule = aiplatform.Schedule(requests.schedule(DEPLOYMENT, job))
    assert faults(schedule) == []
    assert schedule.max_concurrent_run_count == 1 and schedule.cron == "TZ=UTC 0 3 * * *"
    job = schedule.create_pipeline_job_request.pipeline_job
    assert job.pipeline_spec["pipelineInfo"]["name"] == pipeline.NAME
    assert job.labels == {"app": "beambert", "release": COMMIT}
    assert len(schedule.cron.split()) == 6  # the zone, and five fields


def test_models_are_what_vertex_takes():
    model = aiplatform.Model(requests.model(DEPLOYMENT, "gs://b/w/runs/000003", RESULT))
    assert faults(model) == []
    # Serving takes the highest number in its folder, so it has the version of this run alone.
    assert model.artifact_uri == "gs://b/w/runs/000003/registered"
    assert dict(model.labels) == {"app": "beambert", "run": "000003", "version": "3"}
    evaluation = aiplatform.ModelEvaluation(requests.model_evaluation(METRICS))
    assert faults(evaluation) == []
    assert evaluation.metrics["confusionMatrix"]["rows"][0]["row"] == [45, 5]
    assert requests.model_evaluation(METRICS | {"details": {}}) is None


def test_a_refused_model_is_not_uploaded():
    result = RESULT | {"version": None, "reasons": ["worse"]}
    with pytest.raises(InputError, match="published nothing .worse"):
        requests.model(DEPLOYMENT, "w/runs/000001", result)


def test_a_release_without_an_image():
    with pytest.raises(InputError, match=f"builds/{COMMIT}.json: has no image beam; build"):
        Deployment(SETTINGS, Release(COMMIT, {"serving": "sha256:a"})).image("beam")


def test_configuration_is_one_when_it_is_filled_in():
    text = DEPLOYMENT.fill_in((DEPLOY / "retrain.toml").read_text())
    config = Retraining.from_toml(text, "retrain.toml")
    assert config.workspace == "gs://my-bucket-work/retraining"
    assert config.data["sdk_container_image"] == DEPLOYMENT.image("beam")
    assert config.data["labels"] == ["app=beambert"]
    assert not re.search(
        "BUCKET|PROJECT|REGION|_IMAGE", text.partition("\n\n")[2].replace("# ", "")
    )
    # Beam takes its flags as they stand.
    from beambert.deploy.retraining.runs import beam_flags
    from beambert.pipelines.jobs.running import beam_options

    options = beam_options(beam_flags("data", config.data)).get_all_options()
    assert options["labels"] == ["app=beambert"]
    assert options["dataflow_service_options"] == ["max_workflow_runtime_walltime_seconds=43200"]


def test_settings(tmp_path):
    path = tmp_path / "terraform.tfvars"
    path.write_text((DEPLOY / "terraform" / "terraform.tfvars").read_text() + 'zone = "a"\n')
    with pytest.raises(InputError, match="correct zone"):
        Settings.read(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("canary_share = 0", 'canary_share = "ten"', 'canary_share = "ten": must be a whole'),
        ("canary_share = 0", "canary_share = 100", "canary_share = 100: .* from 0 to 99"),
        ("canary_share = 0", "canary_share = true", "canary_share = true: must be a whole number"),
        ("records_days = 180", "records_days = 0", "records_days = 0: .* from 1 on"),
        ("training_regions = []", 'training_regions = "us-east1"', "must be a list of texts"),
        ("deliverers = []", "deliverers = [1]", r"deliverers = \[1\]: must be a list of texts"),
        ('kms_key = ""', "kms_key = 2026-11-21", 'kms_key = "2026-11-21": must be a text'),
        ("project =", "\udcff =", "cannot be read"),
    ],
)
def test_a_setting_of_the_wrong_type(tmp_path, old, new, message):
    """Of a text in the place of a list, each letter would be a region."""
    text = (DEPLOY / "terraform" / "terraform.tfvars").read_text()
    assert old in text
    path = tmp_path / "terraform.tfvars"
    path.write_text(text.replace(old, new), errors="surrogateescape")
    with pytest.raises(InputError, match=message) as caught:
        Settings.read(path)
    assert str(path) in str(caught.value)


def test_a_tensorboard_of_another_region():
    name = "projects/my-project/locations/us-west4/tensorboards/7"
    with pytest.raises(InputError, match="tensorboard: is not in us-central1"):
        Settings(**vars(SETTINGS) | {"tensorboard": name})


def test_a_key_is_of_one_region():
    key = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"
    with pytest.raises(InputError, match="training_regions: kms_key is a key of us-central1"):
        Settings(**vars(SETTINGS) | {"kms_key": key, "training_regions": ("us-west4",)})


def test_a_deployment_is_read_as_it_was_written():
    found = Deployment.from_json(DEPLOYMENT.to_json(), "x")
    assert found.image("beam") == DEPLOYMENT.image("beam") and found.file == DEPLOYMENT.file
    for text in ("", "[]", '{"settings": {}, "release": {}}'):
        with pytest.raises(InputError, match="x: is no deployment .*deploy it again"):
            Deployment.from_json(text, "x")


def test_every_step_has_a_command():
    assert set(pipeline.MADE) == set(STEPS) and set(pipeline.USES) < set(STEPS)
    for step in ("plan", *STEPS, "release"):
        words = pipeline.command(step)
        assert command.build_parser().parse_args(words[3:]).step == step
    assert "retrain" in COMMANDS
