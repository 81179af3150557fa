"""Estimates the steps, cost and time of a job on Dataflow, for `beambert data --dry_run`."""

import dataclasses
import re
from typing import TYPE_CHECKING

from beambert.console import duration
from beambert.errors import InputError
from beambert.pipelines.pretraining_data.job_size import JobSize

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.portability.api.beam_runner_api_pb2 import Pipeline

GROUP_BY_KEY = "beam:transform:group_by_key:v1"
# Time of a job on one core with Beam, as a multiple of its time without Beam. It is the value
# `beam_seconds_per_core_second` in benchmarks/results/data_core.json.
BEAM_SECONDS_PER_SECOND = 1.3
# Prices of a vCPU hour and of a GB hour of memory in dollars, for batch and FlexRS workers:
# https://cloud.google.com/dataflow/pricing
PRICES_OF = "list prices of us-central1 as of 2025"
PRICES = {"batch": (0.056, 0.003557), "FlexRS": (0.0336, 0.0021342)}
# Price of a GB that batch jobs write to Dataflow's shuffle or read from it, in dollars, from the
# same page. It is reduced for the first 5 TB, which is left out here.
SHUFFLE_DOLLARS_PER_GIGABYTE = 0.011
# Prices of a request that writes, copies or lists objects, and of one that reads, in dollars:
# https://cloud.google.com/storage/pricing, classes A and B of the class Standard in one region
WRITE_DOLLARS, READ_DOLLARS = 0.005 / 1000, 0.0004 / 1000
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
    price, priced = list_price(shape[1], kind)
    if vcpu_hour_price is not None:
        price, priced = vcpu_hour_price, "--vcpu_hour_price"
    count = asked.max_num_workers or asked.num_workers
    return Workers(machine, int(shape[2]), count, price, priced)


def list_price(shape: str = "standard", kind: str = "batch") -> tuple[float, str]:
    """Returns the price of a vCPU hour with its share of the memory, and the source of the price.

    Args:
      shape: key of `GIGABYTES_PER_VCPU`.
      kind: key of `PRICES`.
    """
    vcpu, gigabyte = PRICES[kind]
    return vcpu + GIGABYTES_PER_VCPU[shape] * gigabyte, f"{kind}, {PRICES_OF}"


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


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost and the duration of a job.

    Attributes:
      vcpu_hours: time of all vCPUs.
      vcpus: number of vCPUs that have work at a time; None to leave it to Dataflow.
      seconds: time of the job without its start; None to leave it to Dataflow.
      worker_dollars, shuffle_dollars, request_dollars: price of the workers, of what the shuffle
        carries, and of the requests to object storage.
    """

    vcpu_hours: float
    vcpus: int | None
    seconds: float | None
    worker_dollars: float
    shuffle_dollars: float
    request_dollars: float


def predict(size: JobSize, workers: Workers) -> Cost:
    """Returns the cost and the duration of a job; one vCPU works on a shard."""
    hours = BEAM_SECONDS_PER_SECOND * size.core_seconds / 3600
    vcpus = workers.count and min(workers.count * workers.vcpus, size.shards)
    return Cost(
        hours,
        vcpus,
        vcpus and 3600 * hours / vcpus + size.serial_seconds,
        hours * workers.vcpu_hour_price,
        SHUFFLE_DOLLARS_PER_GIGABYTE * size.shuffle_traffic / 1e9,
        WRITE_DOLLARS * size.write_requests + READ_DOLLARS * size.read_requests,
    )


def describe_cost(size: JobSize, workers: Workers) -> str:
    """Returns the text about the cost and the duration of a job."""
    cost = predict(size, workers)
    again = ", the documents again to measure the sources" if size.measures_sources else ""
    lines = [
        f"  {cost.vcpu_hours:,.2f} vCPU hours if a vCPU is as fast as a core here: "
        f"${cost.worker_dollars:,.2f} at ${workers.vcpu_hour_price:.3f} each "
        f"({workers.priced}), without disks",
        f"  {size.shuffled_bytes / 1e9:,.2f} GB through the shuffle, written and read{again}: "
        f"${cost.shuffle_dollars:,.2f}; {size.write_requests + size.read_requests:,} requests to "
        f"object storage: ${cost.request_dollars:,.2f} ({PRICES_OF}, without discounts)",
    ]
    if cost.seconds is None:
        lines.append(
            f"  on as many {workers.machine} as Dataflow chooses; --max_num_workers limits it"
        )
    else:
        lines.append(
            f"  {duration(cost.seconds)} on {workers.count} {workers.machine}, {cost.vcpus} of "
            f"their vCPUs at work at a time, {duration(size.serial_seconds)} of it for the plan "
            "and the last step, and some minutes to start"
        )
    return "\n".join(lines)
