"""Deploys a release: its configuration and pipeline, and the schedule that starts it.

A release is the images of a commit. The configuration's bucket has all that belongs to its
deployment:

    builds/COMMIT/TRAINER.json         digests of the images, which deploy/cloudbuild.yaml writes
    releases/COMMIT/retrain.toml       configuration of the retraining
    releases/COMMIT/deployment.json    settings and digests, for the steps of the pipeline
    retraining_pipeline.json           the pipeline of the release in use
"""

import json
import pathlib
import time
from collections.abc import Mapping
from typing import Any

from beambert.deploy import google_cloud
from beambert.deploy.retraining.planning import MOUNTED, check_values
from beambert.deploy.retraining.runs import Retraining
from beambert.deploy.settings import DISPLAY_NAME, LABELS, Deployment, Release, Settings
from beambert.deploy.vertex import jobs
from beambert.errors import InputError
from beambert.model_files import CARD_FILE

# The component waits most of its time, and evaluates and exports models: e2-highmem-2.
CPUS, GIBIBYTES = 2, 16
# Filter of the training jobs of runs; those that were sent by hand have no workspace.
STEPS_AT_WORK = 'labels.app="beambert" AND labels.workspace:*'


def find(settings: Settings, tag: str) -> Deployment:
    """Returns the deployment of a release that was built.

    Raises:
      InputError: the release was not built.
    """
    from beambert import io

    path = Deployment(settings, Release(tag)).build
    if not io.exists(path):
        raise InputError(f"{path}: is missing; build the release again with `make cloud`")
    return Deployment(settings, Release(tag, json.loads(io.read_text(path))))


def in_use(settings: Settings) -> Deployment:
    """Returns the deployment that the schedule starts.

    Raises:
      InputError: nothing is deployed.
    """
    return find(settings, _pipeline_in_use(settings)["labels"]["release"])


def _pipeline_in_use(settings: Settings) -> dict[str, Any]:
    from beambert import io

    with google_cloud.service_errors(settings.project, "cannot be looked at"):
        google_cloud.session(settings.project)  # Without a login, reading goes on anonymously.
    if not io.exists(settings.pipeline):
        raise InputError(f"{settings.pipeline}: is missing; deploy a release first")
    return json.loads(io.read_text(settings.pipeline))


def make_pipeline(deployment: Deployment) -> dict[str, Any]:
    """Returns the pipeline of a deployment, whose only component does a whole run.

    It is not retried: a step that fails would be paid for again, and the next start continues where
    it stopped. It waits for its jobs on a machine that costs (docs/cloud.md). Google's pipeline
    components wait for nothing, but none could hold the lock of a run over its steps, and what a
    run does would be written a second time, as a graph. The format is that of the Kubeflow
    Pipelines SDK's compiler, which is no dependency as it pins other versions of what Google's
    clients need.
    """
    words = ["python", "-m", "beambert.deploy", "retrain", f"--deployment={deployment.file}"]
    container = {
        "image": deployment.image("component"),
        "command": words,
        # The numbers are of the deprecated fields, which the strings replace.
        "resources": {
            **{"cpuLimit": float(CPUS), "resourceCpuLimit": str(CPUS)},
            **{"memoryLimit": GIBIBYTES * 2**30 / 1e9, "resourceMemoryLimit": f"{GIBIBYTES}Gi"},
        },
    }
    task = {"cachingOptions": {}, "componentRef": {"name": "comp-retrain"}}
    return {
        "components": {"comp-retrain": {"executorLabel": "exec-retrain"}},
        "deploymentSpec": {"executors": {"exec-retrain": {"container": container}}},
        "pipelineInfo": {"name": "beambert-retraining"},
        "root": {"dag": {"tasks": {"retrain": {**task, "taskInfo": {"name": "retrain"}}}}},
        "schemaVersion": "2.1.0",
        "sdkVersion": "kfp-2.17.3",
    }


def pipeline_job(deployment: Deployment) -> dict[str, Any]:
    """Returns a PipelineJob of a deployment."""
    return {
        "display_name": DISPLAY_NAME,
        "labels": LABELS | {"release": deployment.release.tag[:63]},
        "pipeline_spec": make_pipeline(deployment),
        "runtime_config": {
            "gcs_output_directory": f"{deployment.settings.work}/pipeline",
            "failure_policy": "PIPELINE_FAILURE_POLICY_FAIL_FAST",
        },
        "service_account": deployment.settings.account("beambert-pipeline"),
    }


def schedule(deployment: Deployment, job: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a Schedule of a pipeline's job; a start during another run is left out."""
    return {
        "display_name": DISPLAY_NAME,
        "cron": f"TZ=UTC {deployment.settings.schedule}",
        "max_concurrent_run_count": 1,
        "allow_queueing": False,
        "create_pipeline_job_request": {
            "parent": deployment.settings.parent,
            "pipeline_job": dict(job),
        },
    }


def read_config(deployment: Deployment, config_file: str) -> tuple[str, Retraining]:
    """Returns the configuration of a retraining with the values of a deployment, as text and read.

    Args:
      deployment: the settings and the release.
      config_file: the file, with placeholders.

    Raises:
      InputError: it cannot be read, or a step on another machine would refuse it.
    """
    try:
        text = deployment.fill_in(pathlib.Path(config_file).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"--config={config_file}: cannot be read ({error.strerror})") from error
    config = Retraining.from_toml(text, config_file)
    folders = {
        "workspace": (config.workspace, "gs://"),
        "finetune.data_dir": (str(config.finetune["data_dir"]), MOUNTED),
    }
    for name, (folder, root) in folders.items():
        if not folder.startswith(root):
            raise InputError(
                f"--config={config_file}: {name}: {folder}: is on this machine, and each step runs "
                f"on another; give one under {root}"
            )
    check_values(config)
    return text, config


def deploy(deployment: Deployment, config_file: str) -> None:
    """Writes the configuration and the pipeline of a release, and puts them to use.

    Args:
      deployment: the settings and the release.
      config_file: configuration of the retraining, with placeholders.

    Raises:
      InputError: the configuration is wrong, or a file cannot be written.
    """
    from beambert import io

    text, _ = read_config(deployment, config_file)
    job = pipeline_job(deployment)
    io.write_bytes(deployment.config, text.encode())
    io.write_bytes(deployment.file, deployment.to_json().encode())
    settings = deployment.settings
    request = schedule(deployment, job)
    with google_cloud.service_errors(DISPLAY_NAME, "the schedule cannot be made"):
        client = google_cloud.vertex_client("ScheduleService", settings.region)
        old = _schedules(client, settings)
        created = google_cloud.patiently(
            client.create_schedule, parent=settings.parent, schedule=request
        )
        io.write_bytes(settings.pipeline, json.dumps(job).encode())
        for each in old:
            client.delete_schedule(name=each.name)
    print(f"{created.name}: {request['cron']}, release {deployment.release.tag}")


def _schedules(client: Any, settings: Settings) -> list[Any]:
    wanted = {"parent": settings.parent, "filter": f'display_name="{DISPLAY_NAME}"'}
    return list(client.list_schedules(request=wanted))


def start(settings: Settings) -> None:
    """Starts the pipeline in use once, besides its schedule.

    Raises:
      InputError: nothing is deployed, or Vertex AI refuses.
    """
    with google_cloud.service_errors(DISPLAY_NAME, "the pipeline cannot be started"):
        client = google_cloud.vertex_client("PipelineService", settings.region)
        job = _pipeline_in_use(settings)
        created = google_cloud.patiently(
            client.create_pipeline_job, parent=settings.parent, pipeline_job=job
        )
        print(created.name)


def stop(settings: Settings) -> None:
    """Deletes the schedule, and cancels pipelines at work; a later `deploy` makes it again.

    A component that is lost leaves its jobs at work, so those are cancelled, too.

    Raises:
      InputError: a service refuses.
    """
    with google_cloud.service_errors(DISPLAY_NAME, "the schedule cannot be deleted"):
        client = google_cloud.vertex_client("ScheduleService", settings.region)
        for each in _schedules(client, settings):
            client.delete_schedule(name=each.name)
            print(f"{each.name}: deleted")
        pipelines = google_cloud.vertex_client("PipelineService", settings.region)
        running = f'display_name="{DISPLAY_NAME}" AND state="PIPELINE_STATE_RUNNING"'
        request = {"parent": settings.parent, "filter": running}
        for each in pipelines.list_pipeline_jobs(request=request):
            pipelines.cancel_pipeline_job(name=each.name)
            print(f"{each.name}: cancelled")
    jobs.cancel(settings, STEPS_AT_WORK)
    with google_cloud.service_errors(DISPLAY_NAME, "jobs on Dataflow cannot be cancelled"):
        beam = google_cloud.dataflow_client()
        for each in dataflow_jobs(settings):
            where = {"project_id": settings.project, "location": settings.region}
            state = {"requested_state": "JOB_STATE_CANCELLED"}
            beam.update_job({**where, "job_id": each.id, "job": state})
            print(f"{each.name}: cancelled")


def dataflow_jobs(settings: Settings) -> list[Any]:
    """Returns the jobs on Dataflow that are at work and have our label."""
    found = google_cloud.jobs_on_dataflow(settings.project, settings.region)
    return [job for job in found if job.labels.get("app") == LABELS["app"]]


def await_dataflow(settings: Settings) -> None:
    """Waits until no job is at work on Dataflow, whose machines hold the network.

    Raises:
      InputError: Dataflow refuses.
    """
    with google_cloud.service_errors(DISPLAY_NAME, "jobs on Dataflow cannot be awaited"):
        while found := dataflow_jobs(settings):
            print(f"waiting for the end of {', '.join(job.name for job in found)}", flush=True)
            time.sleep(jobs.SECONDS_BETWEEN_LOOKS)


def print_status(settings: Settings) -> None:
    """Prints the runs of the workspace, and what is served.

    Raises:
      InputError: nothing is deployed, or a file or service cannot be read.
    """
    from beambert import io
    from beambert.deploy.retraining import workspace
    from beambert.deploy.retraining.runs import STEPS, RunResult, is_needed

    config = workspace.read_config(in_use(settings).config)
    history = workspace.read_history(config.workspace)
    for path in sorted([*history.published, *history.refused]):
        result = workspace.read_as(RunResult, f"{path}/{workspace.RESULT_FILE}")
        print(f"{path}: {result.outcome}: {'; '.join(result.reasons)}")
    if run := history.open:
        steps = [step for step in STEPS if is_needed(step, run)]
        done = [step for step in steps if workspace.is_done(step, run)]
        print(f"{run.path}: {len(done)} of {len(steps)} steps done; next: {steps[len(done)]}")
    with google_cloud.service_errors(DISPLAY_NAME, "the pipeline cannot be looked at"):
        client = google_cloud.vertex_client("PipelineService", settings.region)
        wanted = f'display_name="{DISPLAY_NAME}"'
        request = {"parent": settings.parent, "filter": wanted, "order_by": "create_time desc"}
        for job in client.list_pipeline_jobs({**request, "page_size": 1}):
            why = f": {job.error.message}" if job.error.message else ""
            print(f"{job.name}: {job.state.name.removeprefix('PIPELINE_STATE_').lower()}{why}")
            break
    if not history.newest:
        print("no version is served yet")
        return
    served = f"{config.workspace}/serving/{history.newest}"
    print(f"\n{served}: is served\n")
    print(io.read_text(f"{served}/{CARD_FILE}"))
