"""Sends jobs, schedules and models to Vertex AI.

    python -m beambert.deploy.vertex train --step=encoder     runs a step of the retraining
    python -m beambert.deploy.vertex job -- pretrain --data=…  runs a command of the trainer
    python -m beambert.deploy.vertex deploy  sets up the retraining
    python -m beambert.deploy.vertex upload gs://B/retraining/runs/000001  registers a model

With --show, the command prints the request and sends nothing.
"""

import dataclasses
import json
import pathlib
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.deploy.settings import FILE, Settings
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.flags import FlagParser
from beambert.pipelines.storage.claims import METRICS_FILE

FOLDER = pathlib.Path(__file__).parents[1]
SECONDS_BETWEEN_LOOKS = 30.0
# The longest time of a job: a week, which is Vertex's default, too.
TIMEOUT = "604800s"
DISPLAY_NAME = "beambert"


@dataclasses.dataclass(frozen=True)
class TrainingMachine:
    """A machine to train on.

    Attributes:
      machine: Vertex's `machine_spec`.
      image: target of deploy/vertex/Dockerfile, tpu or gpu.
      spot: whether it is a spot machine. It costs about a third, but Vertex may take it back at any
        time; the job is then started again and continues from its last checkpoint.
    """

    machine: Mapping[str, Any]
    image: str
    spot: bool = False


def _tpu(machine_type: str, topology: str, spot: bool = False) -> TrainingMachine:
    spec = {"machine_type": machine_type, "tpu_topology": topology}
    return TrainingMachine(spec, "tpu", spot)


def _gpu(machine_type: str, kind: str, count: int, spot: bool = False) -> TrainingMachine:
    spec = {
        "machine_type": machine_type,
        "accelerator_type": kind,
        "accelerator_count": count,
    }
    return TrainingMachine(spec, "gpu", spot)


# Each machine is one host, because `--tpu=local` uses the chips of its own host only. Vertex has
# TensorFlow for v5e, not for v6e. https://cloud.google.com/vertex-ai/docs/training/configure-compute
TRAINERS = {
    "v5e-1": _tpu("ct5lp-hightpu-1t", "1x1"),
    "v5e-4": _tpu("ct5lp-hightpu-4t", "2x2"),
    "v5e-8": _tpu("ct5lp-hightpu-8t", "2x4"),
    "v5e-8-spot": _tpu("ct5lp-hightpu-8t", "2x4", spot=True),
    "l4": _gpu("g2-standard-12", "NVIDIA_L4", 1),
    "l4-spot": _gpu("g2-standard-12", "NVIDIA_L4", 1, spot=True),
    "a100-8": _gpu("a2-highgpu-8g", "NVIDIA_TESLA_A100", 8),
    "h100-8-spot": _gpu("a3-highgpu-8g", "NVIDIA_H100_80GB", 8, spot=True),
}


def custom_job(settings: Settings, name: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Returns a CustomJob that runs `beambert` with some arguments on the training machine.

    Raises:
      InputError: the settings name no trainer.
    """
    trainer = find_trainer(settings)
    pool = {
        "machine_spec": dict(trainer.machine),
        "replica_count": 1,
        "container_spec": {
            "image_uri": settings.image(f"trainer-{trainer.image}"),
            "args": list(arguments),
        },
    }
    scheduling = {
        "timeout": TIMEOUT,
        "strategy": "SPOT" if trainer.spot else "STANDARD",
        "restart_job_on_worker_restart": trainer.spot,
    }
    return {
        "display_name": name,
        "job_spec": {
            "worker_pool_specs": [pool],
            "scheduling": scheduling,
            "service_account": settings.account("beambert-trainer"),
        },
    }


def find_trainer(settings: Settings) -> TrainingMachine:
    """Returns the machine that the settings name.

    Raises:
      InputError: there is no machine of this name.
    """
    if settings.trainer not in TRAINERS:
        raise InputError(
            f"{FILE}: there is no trainer {settings.trainer}; choose one of {', '.join(TRAINERS)}"
        )
    return TRAINERS[settings.trainer]


def step_arguments(settings: Settings, step: str) -> list[str]:
    """Returns the arguments of `beambert` for a step of the retraining."""
    return ["retrain", f"--config={settings.config}", f"--step={step}"]


def pipeline_job(settings: Settings, pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a PipelineJob of a compiled pipeline."""
    return {
        "display_name": DISPLAY_NAME,
        "pipeline_spec": dict(pipeline),
        "runtime_config": {
            "gcs_output_directory": f"gs://{settings.bucket}/pipeline",
            "failure_policy": "PIPELINE_FAILURE_POLICY_FAIL_FAST",
        },
        "service_account": settings.account("beambert-pipeline"),
    }


def schedule(settings: Settings, pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a Schedule of a compiled pipeline; a start during another run is left out."""
    return {
        "display_name": DISPLAY_NAME,
        "cron": f"TZ=UTC {settings.schedule}",
        "max_concurrent_run_count": 1,
        "allow_queueing": False,
        "create_pipeline_job_request": {
            "parent": settings.parent,
            "pipeline_job": pipeline_job(settings, pipeline),
        },
    }


def registered_folder(run: str) -> str:
    """Returns the folder of a run that TensorFlow Serving serves: it has the run's version alone.

    Of the folder of all versions it would serve the highest, whichever run was registered.
    """
    return f"{run}/registered"


def model(settings: Settings, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a Model for the version that a run published, served by TensorFlow Serving.

    Args:
      settings: settings of the project.
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
        "description": "; ".join(result["reasons"]),
        "artifact_uri": registered_folder(run),
        "version_aliases": [f"run-{number}"],
        "labels": {"run": number, "version": str(result["version"])},
        "container_spec": {
            "image_uri": settings.image("serving"),
            "args": [
                f"--model_name={DISPLAY_NAME}",
                "--model_base_path=$(AIP_STORAGE_URI)",
                "--rest_api_port=8080",
            ],
            "ports": [{"container_port": 8080}],
            "predict_route": f"{path}:predict",
            "health_route": path,
        },
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


def _clients(settings: Settings) -> Any:
    from google.cloud import aiplatform_v1

    options = {"api_endpoint": f"{settings.region}-aiplatform.googleapis.com"}
    return aiplatform_v1, options


def run_job(settings: Settings, job: Mapping[str, Any]) -> None:
    """Runs a job to its end, or waits for a running job of the same name.

    SIGTERM cancels the job. A pipeline that is cancelled sends it to its component, and
    accelerators that nobody waits for would be paid for a week. After Ctrl-C the job goes on.

    Raises:
      InputError: the job failed.
      SystemExit: SIGTERM.
    """
    aiplatform, options = _clients(settings)
    client = aiplatform.JobServiceClient(client_options=options)
    wanted = f'display_name="{job["display_name"]}"'
    request = {"parent": settings.parent, "filter": wanted}
    at_work = [of for of in client.list_custom_jobs(request=request) if not _is_over(of)]
    found = at_work[0] if at_work else None
    if found is None:
        found = client.create_custom_job(parent=settings.parent, custom_job=job)
    print(f"{found.name}: {'waiting' if at_work else 'started'}", flush=True)
    name = found.name

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        while not _is_over(found):
            time.sleep(SECONDS_BETWEEN_LOOKS)
            found = client.get_custom_job(name=name)
    except SystemExit:
        client.cancel_custom_job(name=name)
        print(f"{name}: cancelled, as SIGTERM ended the wait for it", file=sys.stderr, flush=True)
        raise
    except KeyboardInterrupt:
        print(f"{name}: goes on; cancel it on Vertex's page of custom jobs", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)
    if found.state.name != "JOB_STATE_SUCCEEDED":
        raise InputError(f"{found.name}: {found.state.name} ({found.error.message})")


def _is_over(job: Any) -> bool:
    ends = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED")
    return job.state.name.removeprefix("JOB_STATE_") in ends


def deploy(settings: Settings, show: bool) -> None:
    """Copies the retraining's configuration and pipeline to the bucket, and schedules it.

    Raises:
      InputError: the configuration is wrong, or the pipeline is compiled for other settings.
    """
    import yaml
    from google.cloud import aiplatform_v1

    from beambert.deploy.retraining.runs import Retraining
    from beambert.pipelines.storage import tensorflow_files

    config = settings.fill_in((FOLDER / "retrain.toml").read_text("utf-8"))
    Retraining.from_toml(config, "deploy/retrain.toml")
    compiled = (FOLDER / "retraining_pipeline.yaml").read_text("utf-8")
    if settings.config not in compiled or settings.image("beam") not in compiled:
        raise InputError(
            "deploy/retraining_pipeline.yaml: was compiled for other names than those of "
            "deploy/terraform/terraform.tfvars; run `make deploy-files` and build the images again"
        )
    pipeline = yaml.safe_load(compiled)
    request = schedule(settings, pipeline)
    if show:
        print(json.dumps(request, indent=1))
        return
    job = aiplatform_v1.PipelineJob(pipeline_job(settings, pipeline))
    tensorflow_files.write_bytes(settings.config, config.encode())
    sent = aiplatform_v1.PipelineJob.to_json(job, always_print_fields_with_no_presence=False)
    tensorflow_files.write_bytes(settings.pipeline, sent.encode())
    aiplatform, options = _clients(settings)
    client = aiplatform.ScheduleServiceClient(client_options=options)
    wanted = {"parent": settings.parent, "filter": f'display_name="{DISPLAY_NAME}"'}
    old = list(client.list_schedules(request=wanted))
    created = client.create_schedule(parent=settings.parent, schedule=request)
    for each in old:
        client.delete_schedule(name=each.name)
    print(f"{created.name}: {request['cron']}")


def upload(settings: Settings, run: str, show: bool) -> None:
    """Registers a published model and its evaluation in Vertex's model registry.

    The models of all runs are versions of one model of the registry.

    Raises:
      InputError: the run published nothing, or its files cannot be read or copied.
    """
    from beambert.deploy.retraining import workspace
    from beambert.pipelines.storage import tensorflow_files

    run = run.rstrip("/")
    result = workspace.read_json(f"{run}/{workspace.RESULT_FILE}")
    request = model(settings, run, result)
    evaluation = model_evaluation(workspace.read_json(f"{run}/evaluation/{METRICS_FILE}"))
    if show:
        print(json.dumps([request, evaluation], indent=1))
        return
    aiplatform, options = _clients(settings)
    version = result["version"]
    served = f"{run.rpartition('/runs/')[0]}/serving/{version}"
    tensorflow_files.copy(served, f"{registered_folder(run)}/{version}")
    client = aiplatform.ModelServiceClient(client_options=options)
    wanted = {"parent": settings.parent, "filter": f'display_name="{DISPLAY_NAME}"'}
    upload = {"parent": settings.parent, "model": request}
    for older in client.list_models(request=wanted):
        upload["parent_model"] = older.name
    uploaded = client.upload_model(request=upload).result()
    if evaluation:
        client.import_model_evaluation(parent=uploaded.model, model_evaluation=evaluation)
    print(f"{uploaded.model}: uploaded")


def build_parser() -> FlagParser:
    """Returns the parser of the command's flags."""
    parser = FlagParser(
        prog="python -m beambert.deploy.vertex",
        description=__doc__,
    )
    parser.add_argument("--show", action="store_true", help="print the request and send nothing")
    kinds = parser.add_subparsers(dest="kind", required=True)
    train = kinds.add_parser("train", help="run a step of the retraining")
    train.add_argument("--step", required=True, help="step of `beambert retrain`")
    job = kinds.add_parser("job", help="run a command of the trainer")
    job.add_argument("arguments", nargs="+", help="the command with its flags, after --")
    kinds.add_parser("deploy", help="set up the retraining: configuration, pipeline, schedule")
    upload_ = kinds.add_parser("upload", help="register the model that a run published")
    upload_.add_argument("run", help="folder of the run")
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag or a setting cannot be used, or a job failed.
    """
    flags = build_parser().parse_args(list(argv))
    settings = Settings.read()
    if flags.kind == "upload":
        upload(settings, flags.run, flags.show)
    elif flags.kind == "deploy":
        deploy(settings, flags.show)
    else:
        name, arguments = f"{DISPLAY_NAME}-job", list(getattr(flags, "arguments", []))
        if flags.kind == "train":
            name, arguments = f"{DISPLAY_NAME}-{flags.step}", step_arguments(settings, flags.step)
        request = custom_job(settings, name, arguments)
        if flags.show:
            print(json.dumps(request, indent=1))
        else:
            run_job(settings, request)
