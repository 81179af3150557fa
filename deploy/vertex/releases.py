"""Deploys a release: its configuration and pipeline, and the schedule that starts it.

A release is the images of a commit. The configuration's bucket has all that belongs to its
deployment, so an earlier one can be taken again as it was:

    builds/COMMIT.json                 digests of the images, which deploy/cloudbuild.yaml writes
    releases/COMMIT/retrain.toml       configuration of the retraining
    releases/COMMIT/deployment.json    settings and digests, for the steps of the pipeline
    releases/COMMIT/pipeline.json      the pipeline, as Vertex AI takes it
    retraining_pipeline.json           the pipeline of the release in use, for arrivals
"""

import json
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from beambert.deploy import google_cloud
from beambert.deploy.retraining.checks import MOUNTED, check_values
from beambert.deploy.settings import Deployment, Release, Settings
from beambert.deploy.vertex.requests import DISPLAY_NAME, pipeline_job, schedule
from beambert.errors import InputError

if TYPE_CHECKING:
    from beambert.deploy.retraining.runs import Retraining

FOLDER = pathlib.Path(__file__).parents[1]


def find(settings: Settings, tag: str) -> Deployment:
    """Returns the deployment of a release that was built.

    Raises:
      InputError: the release was not built.
    """
    from beambert.pipelines.storage import tensorflow_files

    path = Deployment(settings, Release(tag)).build
    if not tensorflow_files.exists(path):
        raise InputError(
            f"--release={tag}: {path} is missing; build it with deploy/cloudbuild.yaml"
        )
    try:
        digests = dict(json.loads(tensorflow_files.read_text(path)))
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: is damaged ({error}); build the release again") from error
    return Deployment(settings, Release(tag, digests))


def in_use(settings: Settings) -> Deployment:
    """Returns the deployment whose pipeline arrivals start.

    Raises:
      InputError: nothing is deployed.
    """
    from beambert.pipelines.storage import tensorflow_files

    if not tensorflow_files.exists(settings.pipeline):
        raise InputError(f"{settings.pipeline}: is missing; deploy a release first")
    found = json.loads(tensorflow_files.read_text(settings.pipeline))
    return find(settings, found["labels"]["release"])


def deploy(deployment: Deployment, config_file: pathlib.Path, show: bool) -> None:
    """Writes the configuration and the pipeline of a release, and puts them to use.

    Args:
      deployment: the settings and the release.
      config_file: configuration of the retraining, with placeholders.
      show: True to print the request and do nothing.

    Raises:
      InputError: the configuration is wrong, or a file cannot be written.
    """
    import yaml

    from beambert.deploy.retraining.runs import Retraining
    from beambert.pipelines.storage import tensorflow_files

    try:
        config = deployment.fill_in(config_file.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"--config={config_file}: cannot be read ({error.strerror})") from error
    retraining = Retraining.from_toml(config, str(config_file))
    _check_places(retraining, config_file)
    check_values(retraining)
    compiled = (FOLDER / "retraining_pipeline.yaml").read_text("utf-8")
    job = pipeline_job(deployment, yaml.safe_load(deployment.fill_in(compiled)))
    if show:
        print(json.dumps(schedule(deployment, job), indent=1))
        return
    from google.cloud import aiplatform_v1

    sent = aiplatform_v1.PipelineJob.to_json(
        aiplatform_v1.PipelineJob(job), always_print_fields_with_no_presence=False
    )
    tensorflow_files.write_bytes(deployment.config, config.encode())
    tensorflow_files.write_bytes(deployment.file, deployment.to_json().encode())
    tensorflow_files.write_bytes(deployment.pipeline, sent.encode())
    _use(deployment, job, sent)


def _check_places(config: "Retraining", config_file: pathlib.Path) -> None:
    """Refuses folders that the machines of the steps would not find.

    Raises:
      InputError: a folder is on this machine.
    """
    places = {
        "workspace": (config.workspace, "gs://"),
        "finetune.data_dir": (str(config.finetune["data_dir"]), MOUNTED),
    }
    for name, (folder, root) in places.items():
        if not folder.startswith(root):
            raise InputError(
                f"--config={config_file}: {name}: {folder}: is on this machine, and each step runs "
                f"on another; give one under {root}"
            )


def rollback(settings: Settings, tag: str, show: bool) -> None:
    """Puts an earlier deployment to use again, with the configuration that it had.

    Args:
      settings: the settings.
      tag: the release's commit.
      show: True to print the request and do nothing.

    Raises:
      InputError: the release was never deployed.
    """
    from beambert.pipelines.storage import tensorflow_files

    path = Deployment(settings, Release(tag)).file
    if not tensorflow_files.exists(path):
        raise InputError(f"{tag}: was never deployed ({path} is missing); name an earlier release")
    deployment = Deployment.from_json(tensorflow_files.read_text(path), path)
    sent = tensorflow_files.read_text(deployment.pipeline)
    from google.cloud import aiplatform_v1

    if show:
        print(json.dumps(schedule(deployment, json.loads(sent)), indent=1))
        return
    job = aiplatform_v1.PipelineJob.to_dict(aiplatform_v1.PipelineJob.from_json(sent))
    _use(deployment, job, sent)


def _use(deployment: Deployment, job: Mapping[str, Any], sent: str) -> None:
    """Makes a pipeline the one that the schedule and arrivals start."""
    from beambert.pipelines.storage import tensorflow_files

    settings = deployment.settings
    request = schedule(deployment, job)
    with google_cloud.service_errors(DISPLAY_NAME, "the schedule cannot be made"):
        client = google_cloud.vertex_client("ScheduleService", settings.region)
        wanted = {"parent": settings.parent, "filter": f'display_name="{DISPLAY_NAME}"'}
        old = list(client.list_schedules(request=wanted))
        created = client.create_schedule(parent=settings.parent, schedule=request)
        tensorflow_files.write_bytes(settings.pipeline, sent.encode())
        for each in old:
            client.delete_schedule(name=each.name)
    print(f"{created.name}: {request['cron']}, release {deployment.release.tag}")


def stop(settings: Settings, show: bool) -> None:
    """Deletes the schedule; a later `deploy` makes it again.

    Args:
      settings: the settings.
      show: True to print what would be deleted and delete nothing.

    Raises:
      InputError: Vertex AI refuses.
    """
    with google_cloud.service_errors(DISPLAY_NAME, "the schedule cannot be deleted"):
        client = google_cloud.vertex_client("ScheduleService", settings.region)
        wanted = {"parent": settings.parent, "filter": f'display_name="{DISPLAY_NAME}"'}
        for each in list(client.list_schedules(request=wanted)):
            if not show:
                client.delete_schedule(name=each.name)
            print(f"{each.name}: {'would be ' if show else ''}deleted")
