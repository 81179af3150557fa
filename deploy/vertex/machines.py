"""The machines that Vertex AI trains on."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from beambert.deploy.settings import FILE, Settings
from beambert.errors import InputError


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
