"""What Vertex AI is asked for: jobs, the pipeline, its schedule, models. Functions are pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.deploy.retraining.runs import (
    CLASSIFIER,
    ENCODER,
    Retraining,
    RetrainingRun,
    workspace_hash,
)
from beambert.deploy.settings import LABELS, Deployment, Settings
from beambert.deploy.vertex.machines import find_trainer
from beambert.errors import InputError

DISPLAY_NAME = "beambert"
# These steps are jobs on accelerators. The others run in the pipeline's component or on Dataflow.
ON_ACCELERATORS = (ENCODER, CLASSIFIER)
# The longest time of a job in hours. Pre-training base takes 11 to 17 (docs/cloud.md), and
# fine-tuning minutes. A job that takes longer stands still, or continues when it is started again.
HOURS = {ENCODER: 72, CLASSIFIER: 6}


def custom_job(
    deployment: Deployment,
    name: str,
    arguments: Sequence[str],
    hours: int = HOURS[ENCODER],
    labels: Mapping[str, str] = LABELS,
    events: str = "",
) -> dict[str, Any]:
    """Returns a CustomJob that runs `beambert` with some arguments on the training machine.

    Args:
      deployment: the settings and images.
      name: display name of the job.
      arguments: the command with its flags.
      hours: longest time of the job in hours.
      labels: labels of the job.
      events: folder above that of TensorBoard's events; "" for a job that the settings' TensorBoard
        doesn't show.

    Raises:
      InputError: the settings name no trainer.
    """
    trainer = find_trainer(deployment.settings)
    pool = {
        "machine_spec": dict(trainer.machine),
        "replica_count": 1,
        "container_spec": {
            "image_uri": deployment.image(f"trainer-{trainer.image}"),
            "args": list(arguments),
        },
    }
    scheduling = {
        "timeout": f"{3600 * hours}s",
        "strategy": "SPOT" if trainer.spot else "STANDARD",
        "restart_job_on_worker_restart": trainer.spot,
    }
    spec = {
        "worker_pool_specs": [pool],
        "scheduling": scheduling,
        "service_account": deployment.settings.account("beambert-trainer"),
    }
    if events and deployment.settings.tensorboard:
        # Vertex reads the events in its subfolder `logs`, and the trainer writes them there.
        spec["base_output_directory"] = {"output_uri_prefix": events}
        spec["tensorboard"] = deployment.settings.tensorboard
    return {
        "display_name": name,
        "labels": dict(labels),
        "job_spec": spec,
        **deployment.settings.encryption,
    }


def job_by_hand(deployment: Deployment, arguments: Sequence[str], hours: int) -> dict[str, Any]:
    """Returns the CustomJob of a command; the same command again has the same name.

    Raises:
      InputError: the settings name no trainer.
    """
    digest = hashlib.sha256("\0".join(arguments).encode()).hexdigest()[:8]
    name = re.sub("[^a-z0-9-]", "-", f"{DISPLAY_NAME}-{arguments[0]}-{digest}".lower())
    return custom_job(deployment, name, arguments, hours, LABELS | {"step": arguments[0]})


def on_demand(job: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a CustomJob on a machine that isn't taken back."""
    scheduling = job["job_spec"]["scheduling"]
    scheduling = scheduling | {"strategy": "STANDARD", "restart_job_on_worker_restart": False}
    return {**job, "job_spec": {**job["job_spec"], "scheduling": scheduling}}


def in_region(job: Mapping[str, Any], settings: Settings, region: str) -> dict[str, Any]:
    """Returns a CustomJob for a region. A TensorBoard takes events of its own region only."""
    spec = dict(job["job_spec"])
    if region != settings.region:
        spec.pop("tensorboard", None)
    return {**job, "job_spec": spec}


def step_job(
    deployment: Deployment, config: Retraining, run: RetrainingRun, step: str
) -> dict[str, Any]:
    """Returns the CustomJob of a step of a run; no other run's job has its name.

    Raises:
      InputError: the settings name no trainer.
    """
    name = f"{DISPLAY_NAME}-{step}-{run.number}-{workspace_hash(config)}"
    labels = LABELS | {"run": run.number, "step": step, "workspace": workspace_hash(config)}
    arguments = step_arguments(deployment.config, step)
    hours, events = HOURS.get(step, HOURS[ENCODER]), f"{run.path}/tensorboard/{step}"
    return custom_job(deployment, name, arguments, hours, labels, events)


def step_arguments(config_file: str, step: str) -> list[str]:
    """Returns the arguments of `beambert` for a step of the retraining."""
    return ["retrain", f"--config={config_file}", f"--step={step}"]


def pipeline_job(deployment: Deployment, pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a PipelineJob of a compiled pipeline."""
    return {
        "display_name": DISPLAY_NAME,
        "labels": LABELS | {"release": deployment.release.tag[:63]},
        "pipeline_spec": dict(pipeline),
        "runtime_config": {
            "gcs_output_directory": f"{deployment.settings.work}/pipeline",
            "failure_policy": "PIPELINE_FAILURE_POLICY_FAIL_FAST",
        },
        "service_account": deployment.settings.account("beambert-pipeline"),
        **deployment.settings.encryption,
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


def registered_folder(run: str) -> str:
    """Returns the folder of a run that TensorFlow Serving serves: it has the run's version alone.

    Of the folder of all versions it would serve the highest, whichever run was registered.
    """
    return f"{run}/registered"


def model(deployment: Deployment, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a Model for the version that a run published, served by TensorFlow Serving.

    Args:
      deployment: the settings and images.
      run: folder of the run.
      result: content of the run's result.json.

    Raises:
      InputError: the run published nothing.
    """
    if result.get("version") is None:
        raise InputError(f"{run}: published nothing ({'; '.join(result['reasons'])})")
    path = f"/v1/models/{DISPLAY_NAME}"
    number = run.rpartition("/")[2]
    return {
        "display_name": DISPLAY_NAME,
        "version_description": "; ".join(result["reasons"]),
        "artifact_uri": registered_folder(run),
        "version_aliases": [f"run-{number}"],
        "labels": LABELS | {"run": number, "version": str(result["version"])},
        "container_spec": {
            "image_uri": deployment.image("serving"),
            "args": [
                f"--model_name={DISPLAY_NAME}",
                "--model_base_path=$(AIP_STORAGE_URI)",
                "--rest_api_port=8080",
            ],
            "ports": [{"container_port": 8080}],
            "predict_route": f"{path}:predict",
            "health_route": path,
        },
        **deployment.settings.encryption,
    }


def model_evaluation(metrics: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the ModelEvaluation of a metrics.json, for the model's page in the registry.

    None for tasks without classes, which its schema has no place for.
    """
    overall = metrics["overall"]
    if "confusion_matrix" not in metrics["details"]:
        return None
    folder = "gs://google-cloud-aiplatform/schema/modelevaluation"
    return {
        "display_name": f"{metrics['task']} {metrics['split']}",
        "metrics_schema_uri": f"{folder}/classification_metrics_1.0.0.yaml",
        "metrics": {
            "logLoss": overall["cross_entropy"],
            "confidenceMetrics": [
                {
                    "confidenceThreshold": 0.0,
                    "recall": overall["accuracy"],
                    "precision": overall["accuracy"],
                    "f1ScoreMacro": overall["macro_f1"],
                }
            ],
            "confusionMatrix": {
                "annotationSpecs": [{"displayName": label} for label in metrics["labels"]],
                "rows": [{"row": row} for row in metrics["details"]["confusion_matrix"]],
            },
        },
        "metadata": {"blessed": metrics["blessed"], "weights_sha256": metrics["weights_sha256"]},
    }
