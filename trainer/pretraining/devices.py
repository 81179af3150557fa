"""Accelerators by name, with the peaks and the memory that their makers publish."""

import dataclasses
import re

from beambert.errors import InputError

# Name -> (floating-point operations a second of dense bfloat16 matrix products, of float16 for t4
# and v100, and bytes of memory), each of one chip. TPUs: docs.cloud.google.com/tpu/docs, the page
# of each version. GPUs: NVIDIA's data sheets, the form for PCIe of t4, l4 and v100, for SXM of a100
# and h100.
_CHIPS = {
    "v2": (46e12, 16e9),
    "v3": (123e12, 32e9),
    "v4": (275e12, 32e9),
    "v5e": (197e12, 16e9),
    "v5p": (459e12, 95e9),
    "v6e": (918e12, 32e9),
    "t4": (65e12, 16e9),
    "v100": (112e12, 16e9),
    "l4": (121e12, 24e9),
    "a100": (312e12, 40e9),
    "h100": (989e12, 80e9),
}
# The share of the peak that estimates assume; nothing was measured on these devices.
ASSUMED_UTILISATION = 0.4
# Seconds. An update that the peak says is shorter waits for its launches instead: it is some
# hundreds of operations, each of which takes microseconds to launch.
LEAST_TOLD_UPDATE = 0.002


@dataclasses.dataclass(frozen=True)
class Devices:
    """Several chips of one kind.

    Attributes:
      name: name of the kind.
      count: number of chips.
      peak: floating-point operations a second of all of them.
      memory: bytes of each.
    """

    name: str
    count: int
    peak: float
    memory: int


def find_devices(name: str) -> Devices:
    """Returns the devices of a name such as "v5e-8" or "a100".

    Raises:
      InputError: there is no such kind.
    """
    found = re.fullmatch(r"([a-z]\d+[a-z]?)(?:-([1-9]\d{0,4}))?", name)
    if not found or found[1] not in _CHIPS:
        raise InputError(
            f"--device={name}: is unknown; give one of {', '.join(_CHIPS)}, with a number of chips "
            "such as v5e-8 if there are several"
        )
    count, (peak, memory) = int(found[2] or 1), _CHIPS[found[1]]
    return Devices(found[1], count, count * peak, int(memory))
