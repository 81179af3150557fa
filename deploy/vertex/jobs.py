"""Training jobs on Vertex AI: the machines, the requests, and running a job to its end."""

import dataclasses
import datetime
import hashlib
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.cli import COMMANDS
from beambert.deploy import google_cloud
from beambert.deploy.retraining.runs import (
    CLASSIFIER,
    ENCODER,
    Retraining,
    RetrainingRun,
    command,
    workspace_hash,
)
from beambert.deploy.settings import (
    DISPLAY_NAME,
    FILE,
    LABELS,
    Deployment,
    Settings,
    accelerator,
)
from beambert.errors import InputError

# These steps are jobs on accelerators, with JAX only the first. The others run in the pipeline's
# component or on Dataflow.
ON_ACCELERATORS = (ENCODER, CLASSIFIER)
# The longest time of a job in hours. Pre-training base takes 11 to 17 (docs/cloud.md), and
# fine-tuning minutes. A job that takes longer makes no progress, or continues when started again.
HOURS = {ENCODER: 72, CLASSIFIER: 6}
SECONDS_BETWEEN_LOOKS = 30.0
# A job that has waited longer for its machine is cancelled.
QUEUE_LIMIT = datetime.timedelta(hours=24)
# The number of spot machines that a job may lose beyond Vertex's own restarts. After that it takes
# an on-demand machine.
SPOT_LOSSES = 3
# Status codes of https://grpc.io/docs/guides/status-codes for a machine that was lost or not found:
# RESOURCE_EXHAUSTED, ABORTED, INTERNAL, UNAVAILABLE. Vertex reports a program that fails as
# INVALID_ARGUMENT and names its "non-zero status".
LOST = (8, 10, 13, 14)
ENDS = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED")


@dataclasses.dataclass(frozen=True)
class TrainingMachine:
    """A machine to train on.

    Attributes:
      machine: Vertex's `machine_spec`.
      quota: what Vertex's quota is named after, such as tpu_v5e.
      spot: whether it is a spot machine. It costs half of that or less, but Vertex may take it back
        at any time; the job is then started again and continues from its last checkpoint.
    """

    machine: Mapping[str, Any]
    quota: str
    spot: bool = False

    @property
    def metric(self) -> str:
        """Name of Vertex's quota in the region."""
        return f"custom_model_training_{'preemptible_' * self.spot}{self.quota}"


_TOPOLOGIES = {1: "1x1", 4: "2x2", 8: "2x4"}


def _tpu(kind: str, machine_type: str, chips: int) -> TrainingMachine:
    spec = {"machine_type": f"{machine_type}-{chips}t", "tpu_topology": _TOPOLOGIES[chips]}
    return TrainingMachine(spec, f"tpu_{kind}")


def _gpu(kind: str, machine_type: str, quota: str, count: int) -> TrainingMachine:
    spec = {"machine_type": machine_type, "accelerator_type": kind, "accelerator_count": count}
    return TrainingMachine(spec, f"nvidia_{quota}_gpus")


# Each machine is one host: a job has one process.
# https://docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/training/configure-compute
_ON_DEMAND = {
    **{f"v5e-{chips}": _tpu("v5e", "ct5lp-hightpu", chips) for chips in _TOPOLOGIES},
    **{f"v6e-{chips}": _tpu("v6e", "ct6e-standard", chips) for chips in _TOPOLOGIES},
    "l4": _gpu("NVIDIA_L4", "g2-standard-12", "l4", 1),
    "a100-1": _gpu("NVIDIA_TESLA_A100", "a2-highgpu-1g", "a100", 1),
    "a100-8": _gpu("NVIDIA_TESLA_A100", "a2-highgpu-8g", "a100", 8),
    "h100-8": _gpu("NVIDIA_H100_80GB", "a3-highgpu-8g", "h100", 8),
}
TRAINERS = _ON_DEMAND | {
    f"{name}-spot": dataclasses.replace(trainer, spot=True) for name, trainer in _ON_DEMAND.items()
}


def find_trainer(settings: Settings) -> TrainingMachine:
    """Returns the training machine of the settings.

    Raises:
      InputError: there is none of its name, or the engine cannot use it.
    """
    name = settings.trainer
    if name not in TRAINERS:
        raise InputError(
            f'{FILE}: trainer = "{name}": no such machine; choose one of {", ".join(_ON_DEMAND)}, '
            "also with -spot"
        )
    # "Starting with TPU v6e, TensorFlow isn't supported for training on Agent Platform":
    # https://docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/training/training-with-tpu-vm
    if name.startswith("v6e") and settings.engine == "tensorflow":
        raise InputError(
            f'{FILE}: trainer = "{name}": Vertex AI has no TensorFlow for it; add engine = "jax", '
            "or take a v5e"
        )
    return TRAINERS[name]


def on_accelerators(settings: Settings) -> tuple[str, ...]:
    """Returns the steps that the engine can do on the training machine."""
    return ON_ACCELERATORS if settings.engine == "tensorflow" else (ENCODER,)


def device_flags(settings: Settings, arguments: Sequence[str]) -> list[str]:
    """Returns the flags with which a command uses the devices of the training machine.

    Args:
      settings: the settings.
      arguments: the command with its flags; those that it has are not added.
    """
    is_tpu = accelerator(settings.trainer) == "tpu"
    if settings.engine != "tensorflow":
        flags = [f"--engine={settings.engine}"]
    else:
        flags = ["--strategy=tpu"] if is_tpu else ["--strategy=mirrored"]
    known = COMMANDS[arguments[0]].build_parser().flags
    given = {argument.partition("=")[0] for argument in arguments}
    names = {flag: flag.partition("=")[0] for flag in flags}
    return [f for f, name in names.items() if name[2:] in known and name not in given]


def custom_job(
    deployment: Deployment,
    name: str,
    arguments: Sequence[str],
    hours: int,
    labels: Mapping[str, str] = LABELS,
) -> dict[str, Any]:
    """Returns a CustomJob that runs `beambert` with some arguments on the training machine.

    Args:
      deployment: the settings and images.
      name: display name of the job.
      arguments: the command with its flags.
      hours: longest time of the job in hours.
      labels: labels of the job.

    Raises:
      InputError: the settings name a machine that cannot be used.
    """
    settings = deployment.settings
    trainer = find_trainer(settings)
    pool = {
        "machine_spec": dict(trainer.machine),
        "replica_count": 1,
        "container_spec": {
            "image_uri": deployment.image(deployment.trainer_image),
            "args": [*arguments, *device_flags(settings, arguments)],
        },
    }
    spec = {
        "worker_pool_specs": [pool],
        "scheduling": {
            "timeout": f"{3600 * hours}s",
            "strategy": "SPOT" if trainer.spot else "STANDARD",
            "restart_job_on_worker_restart": trainer.spot,
        },
        "service_account": settings.account("beambert-trainer"),
    }
    return {"display_name": name, "labels": dict(labels), "job_spec": spec}


def job_by_hand(deployment: Deployment, arguments: Sequence[str], hours: int) -> dict[str, Any]:
    """Returns the CustomJob of a command; the same command again has the same name."""
    digest = hashlib.sha256("\0".join(arguments).encode()).hexdigest()[:8]
    name = re.sub("[^a-z0-9-]", "-", f"{DISPLAY_NAME}-{arguments[0]}-{digest}".lower())
    return custom_job(deployment, name, arguments, hours, LABELS | {"step": arguments[0]})


def step_job(
    deployment: Deployment, config: Retraining, run: RetrainingRun, step: str
) -> dict[str, Any]:
    """Returns the CustomJob of a step of a run; no other run's job has its name."""
    workspace = workspace_hash(config)
    labels = LABELS | {"run": run.number, "step": step, "workspace": workspace}
    name = f"{DISPLAY_NAME}-{step}-{run.number}-{workspace}"
    return custom_job(deployment, name, command(step, config, run), HOURS[step], labels)


def _on_demand(job: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a CustomJob on a machine that isn't taken back."""
    scheduling = job["job_spec"]["scheduling"]
    scheduling = scheduling | {"strategy": "STANDARD", "restart_job_on_worker_restart": False}
    return {**job, "job_spec": {**job["job_spec"], "scheduling": scheduling}}


def run_to_end(settings: Settings, job: Mapping[str, Any]) -> None:
    """Runs a job to its end, or waits for a running job of the same name.

    A spot job that has lost its machine several times, or found none, continues on demand. SIGTERM,
    which a cancelled pipeline sends to its component, cancels the job: accelerators that nobody
    waits for would be paid for. After Ctrl-C the job continues.

    Raises:
      InputError: the job failed, or Vertex AI refuses it.
      SystemExit: SIGTERM.
    """
    name, losses = job["display_name"], 0
    previous = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        with google_cloud.service_errors(name, "the job cannot be started and watched"):
            client = google_cloud.vertex_client("JobService", settings.region)
            while True:
                ended = _run_once(client, settings, job)
                if ended.state.name == "JOB_STATE_SUCCEEDED":
                    return
                why = f"{ended.name}: {ended.state.name} ({ended.error.message})"
                is_spot = job["job_spec"]["scheduling"]["strategy"] == "SPOT"
                if not (is_spot and _is_lost(ended)):
                    raise InputError(f"{why}; its log is on Vertex's page of custom jobs")
                losses += 1
                if losses >= SPOT_LOSSES:
                    job = _on_demand(job)
                kind = "an on-demand" if losses >= SPOT_LOSSES else "another"
                print(f"{why}; continues on {kind} machine", flush=True)
    except SystemExit:
        cancel(settings, _named(name))
        raise
    except KeyboardInterrupt:
        print(f"{name}: continues; cancel it on Vertex's page of custom jobs", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)


def _is_lost(job: Any) -> bool:
    """Whether a job failed because of its machine and not because of its program."""
    failed = job.state.name == "JOB_STATE_FAILED"
    return failed and job.error.code in LOST and "non-zero status" not in job.error.message


def _run_once(client: Any, settings: Settings, job: Mapping[str, Any]) -> Any:
    """Starts a job unless one of its name is at work, and returns it at its end.

    Raises:
      InputError: it has waited for its machine for `QUEUE_LIMIT`.
    """
    found = next(iter(at_work(client, settings, _named(job["display_name"]))), None)
    print(f"{job['display_name']}: {'waiting for' if found else 'starting'} the job", flush=True)
    found = found or google_cloud.patiently(
        client.create_custom_job, parent=settings.parent, custom_job=job
    )
    while not _is_over(found):
        time.sleep(SECONDS_BETWEEN_LOOKS)
        found = client.get_custom_job(name=found.name)
        is_queued = found.state.name in ("JOB_STATE_QUEUED", "JOB_STATE_PENDING")
        now = datetime.datetime.now(datetime.UTC)
        if is_queued and now - found.create_time > QUEUE_LIMIT:
            client.cancel_custom_job(name=found.name)
            raise InputError(
                f"{found.name}: no machine was free for {QUEUE_LIMIT}; check the quota "
                f"{find_trainer(settings).metric} in {settings.region}, or choose another trainer "
                f"in {FILE}, and start again"
            )
    return found


def _is_over(job: Any) -> bool:
    return job.state.name.removeprefix("JOB_STATE_") in ENDS


def _named(name: str) -> str:
    return f'display_name="{name}"'


def at_work(client: Any, settings: Settings, wanted: str) -> list[Any]:
    """Returns the jobs that fit a filter and are at work or wait for their machine."""
    request = {"parent": settings.parent, "filter": wanted}
    return [job for job in client.list_custom_jobs(request=request) if not _is_over(job)]


def cancel(settings: Settings, wanted: str) -> None:
    """Cancels the jobs that fit a filter and are at work.

    Raises:
      InputError: Vertex AI refuses.
    """
    with google_cloud.service_errors(DISPLAY_NAME, "jobs cannot be cancelled"):
        client = google_cloud.vertex_client("JobService", settings.region)
        for job in at_work(client, settings, wanted):
            client.cancel_custom_job(name=job.name)
            print(f"{job.name}: cancelled", file=sys.stderr, flush=True)
