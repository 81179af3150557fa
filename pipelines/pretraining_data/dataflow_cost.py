"""Estimates the steps, cost and time of a job on Dataflow, for `beambert data --dry_run`."""

import dataclasses
import re
from typing import TYPE_CHECKING

from beambert.pipelines.shared.console import duration
from beambert.pipelines.shared.errors import InputError

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.portability.api.beam_runner_api_pb2 import Pipeline

GROUP_BY_KEY = "beam:transform:group_by_key:v1"
# Time of a job on one core with Beam, as a multiple of its time without Beam. It is the value
# `beam_seconds_per_core_second` in benchmarks/results/data_core.json.
BEAM_SECONDS_PER_SECOND = 1.25
# Prices of a vCPU hour and of a GB hour of memory in dollars, for batch and FlexRS workers:
# https://cloud.google.com/dataflow/pricing
PRICES_OF = "list prices of us-central1 as of 2025"
PRICES = {"batch": (0.056, 0.003557), "FlexRS": (0.0336, 0.0021342)}
# Memory by type of machine; some machines have a little less.
# https://cloud.google.com/compute/docs/general-purpose-machines
GIGABYTES_PER_VCPU = {"standard": 4, "highmem": 8, "highcpu": 1}
# Dataflow's default type of machine.
DEFAULT_MACHINE = "n1-standard-1"


@dataclasses.dataclass(frozen=True)
class Workers:
    """The machines of a job.

    Attributes:
      machine: type of the machines.
      vcpus: number of vCPUs of one machine.
      count: greatest number of machines; None to leave it to Dataflow.
      vcpu_hour_price: price in dollars of a vCPU hour, including the vCPU's share of the memory.
      priced: source of the price.
    """

    machine: str
    vcpus: int
    count: int | None
    vcpu_hour_price: float
    priced: str


def find_workers(options: "PipelineOptions", vcpu_hour_price: float | None) -> Workers:
    """Returns the machines that the options ask for.

    Args:
      options: Beam's options.
      vcpu_hour_price: price in dollars of a vCPU hour; None for the list price.

    Raises:
      InputError: the price of the type of machine is unknown.
    """
    from apache_beam.options.pipeline_options import GoogleCloudOptions, WorkerOptions

    asked = options.view_as(WorkerOptions)
    machine = asked.machine_type or DEFAULT_MACHINE
    shape = re.match(r"\w+-(standard|highmem|highcpu)-(\d+)", machine)
    if shape is None:
        raise InputError(
            f"--machine_type={machine}: its price is unknown; estimate with a standard, highmem or "
            "highcpu machine"
        )
    kind = "FlexRS" if options.view_as(GoogleCloudOptions).flexrs_goal else "batch"
    vcpu, gigabyte = PRICES[kind]
    price, priced = vcpu + GIGABYTES_PER_VCPU[shape[1]] * gigabyte, f"{kind}, {PRICES_OF}"
    if vcpu_hour_price is not None:
        price, priced = vcpu_hour_price, "--vcpu_hour_price"
    count = asked.max_num_workers or asked.num_workers
    return Workers(machine, int(shape[2]), count, price, priced)


def describe_graph(job: "Pipeline") -> str:
    """Returns a line that lists the steps of a translated pipeline, and those that shuffle."""
    transforms = job.components.transforms

    def shuffles(name: str) -> bool:
        transform = transforms[name]
        return transform.spec.urn == GROUP_BY_KEY or any(map(shuffles, transform.subtransforms))

    names = job.root_transform_ids
    while len(names) == 1:  # A single transform holds all others.
        names = transforms[names[0]].subtransforms
    steps = [
        transforms[name].unique_name.rpartition("/")[2] + (" (shuffles)" if shuffles(name) else "")
        for name in names
    ]
    return f"on Dataflow, {len(transforms)} transforms: {', '.join(steps)}"


def describe_cost(seconds: float, shards: int, workers: Workers) -> str:
    """Returns the text about the cost and the duration of a job.

    Args:
      seconds: time of the work on one core without Beam, in seconds.
      shards: number of shards to write; one vCPU works on a shard.
      workers: the machines.
    """
    hours = BEAM_SECONDS_PER_SECOND * seconds / 3600
    cost = (
        f"  {hours:,.2f} vCPU hours if a vCPU is as fast as a core here: "
        f"${hours * workers.vcpu_hour_price:,.2f} at ${workers.vcpu_hour_price:.3f} each "
        f"({workers.priced}), without disks and storage\n"
    )
    if workers.count is None:
        return (
            f"{cost}  on as many {workers.machine} as Dataflow chooses; --max_num_workers limits it"
        )
    vcpus = min(workers.count * workers.vcpus, shards)
    time = duration(3600 * hours / vcpus)
    return (
        f"{cost}  {time} on {workers.count} {workers.machine}, {vcpus} of their vCPUs at work at a "
        "time, and some minutes to start"
    )
