"""What a job on Dataflow would be, cost and take, before it is sent: `beambert data --dry_run`."""

import dataclasses
import re
from typing import TYPE_CHECKING

from beambert.pipelines.shared.console import duration
from beambert.pipelines.shared.errors import InputError

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.portability.api.beam_runner_api_pb2 import Pipeline

GROUP_BY_KEY = "beam:transform:group_by_key:v1"
# The job's seconds on a core for each of the same work without Beam's share of it:
# `beam_seconds_per_core_second` of benchmarks/results/data_core.json.
BEAM_SECONDS_PER_SECOND = 1.25
# Dollars of a batch worker's vCPU and of its GB of memory for an hour, and of FlexRS's:
# https://cloud.google.com/dataflow/pricing
PRICES_OF = "list prices of us-central1 as of 2025"
PRICES = {"batch": (0.056, 0.003557), "FlexRS": (0.0336, 0.0021342)}
# https://cloud.google.com/compute/docs/general-purpose-machines; some have a little less.
GIGABYTES_PER_VCPU = {"standard": 4, "highmem": 8, "highcpu": 1}
# What Dataflow takes where nothing is asked for.
DEFAULT_MACHINE = "n1-standard-1"


@dataclasses.dataclass(frozen=True)
class Workers:
    """The machines of a job.

    Attributes:
      machine: its type.
      vcpus: of one.
      count: at most; None to leave it to Dataflow.
      vcpu_hour_price: dollars, with the memory that belongs to it.
      priced: where that is from.
    """

    machine: str
    vcpus: int
    count: int | None
    vcpu_hour_price: float
    priced: str


def find_workers(options: "PipelineOptions", vcpu_hour_price: float | None) -> Workers:
    """Returns the machines that options ask for.

    Args:
      options: of Beam.
      vcpu_hour_price: what the user pays; None for the list price.

    Raises:
      InputError: a machine of a type that isn't known here.
    """
    from apache_beam.options.pipeline_options import GoogleCloudOptions, WorkerOptions

    asked = options.view_as(WorkerOptions)
    machine = asked.machine_type or DEFAULT_MACHINE
    shape = re.match(r"\w+-(standard|highmem|highcpu)-(\d+)", machine)
    if shape is None:
        raise InputError(
            f"--machine_type={machine}: what it costs isn't known here; estimate with a standard, "
            "highmem or highcpu machine"
        )
    kind = "FlexRS" if options.view_as(GoogleCloudOptions).flexrs_goal else "batch"
    vcpu, gigabyte = PRICES[kind]
    price, priced = vcpu + GIGABYTES_PER_VCPU[shape[1]] * gigabyte, f"{kind}, {PRICES_OF}"
    if vcpu_hour_price is not None:
        price, priced = vcpu_hour_price, "--vcpu_hour_price"
    count = asked.max_num_workers or asked.num_workers
    return Workers(machine, int(shape[2]), count, price, priced)


def describe_graph(job: "Pipeline") -> str:
    """Returns the steps of a translated pipeline, and which of them shuffle."""
    transforms = job.components.transforms

    def shuffles(name: str) -> bool:
        transform = transforms[name]
        return transform.spec.urn == GROUP_BY_KEY or any(map(shuffles, transform.subtransforms))

    names = job.root_transform_ids
    while len(names) == 1:  # one transform that holds all others
        names = transforms[names[0]].subtransforms
    steps = [
        transforms[name].unique_name.rpartition("/")[2] + (" (shuffles)" if shuffles(name) else "")
        for name in names
    ]
    return f"on Dataflow, {len(transforms)} transforms: {', '.join(steps)}"


def describe_cost(seconds: float, shards: int, workers: Workers) -> str:
    """Returns what a job costs and how long it takes.

    Args:
      seconds: of one core without Beam.
      shards: that are written, of which each is one vCPU's.
      workers: that do it.
    """
    hours = BEAM_SECONDS_PER_SECOND * seconds / 3600
    cost = (
        f"  {hours:,.2f} vCPU hours if a vCPU is as fast as a core here: "
        f"${hours * workers.vcpu_hour_price:,.2f} at ${workers.vcpu_hour_price:.3f} each "
        f"({workers.priced}), disks and storage aside\n"
    )
    if workers.count is None:
        return (
            f"{cost}  on as many {workers.machine} as Dataflow takes; --max_num_workers bounds it"
        )
    vcpus = min(workers.count * workers.vcpus, shards)
    time = duration(3600 * hours / vcpus)
    return (
        f"{cost}  {time} on {workers.count} {workers.machine}, {vcpus} of their vCPUs at work at a "
        "time, and some minutes to start"
    )
