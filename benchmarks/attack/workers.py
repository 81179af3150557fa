"""Runs attempts in forked processes, each with bounds of time and memory."""

import contextlib
import dataclasses
import json
import os
import pathlib
import random
import resource
import select
import shutil
import signal
import time
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.attack.trials import Family, FoundError, Trial, leftovers

# Bounds of an attempt. The second is for an attempt that waits for something; it is wide, since
# the machine may be busy.
MOST_CPU_SECONDS = 60.0
MOST_SECONDS = 400.0
MOST_BYTES = 3 << 30
# Attempts that one process makes one after the other, so that the libraries start once for them.
ATTEMPTS_OF_A_PROCESS = 25
# Outcome of an attempt that ended well, and those of faults.
HANG, MEMORY, SIGNAL = "hang", "memory", "died"


@dataclasses.dataclass(frozen=True)
class Result:
    """How an attempt ended.

    Attributes:
      family, number: which attempt.
      outcome: its outcome in a word or two.
      is_fault: whether it found a fault.
      detail: what shows the fault.
      seconds: its time.
      bytes: peak memory of its process.
      refusals: sentences of the commands that refused.
    """

    family: str
    number: int
    outcome: str
    is_fault: bool
    detail: str
    seconds: float
    bytes: int
    refusals: Sequence[str] = ()


@dataclasses.dataclass
class _Worker:
    process: int
    pipe: int
    family: Family
    left: list[int]
    begun: float
    cpu: float = 0.0
    text: bytes = b""


def run(
    family: Family,
    numbers: Iterable[int],
    processes: int,
    seed: int,
    places: tuple[pathlib.Path, pathlib.Path],
) -> Iterator[Result]:
    """Makes attempts of a family in several processes at a time.

    Args:
      family: the family.
      numbers: numbers of its attempts, which decide them together with the seed.
      processes: number of processes.
      seed: seed of the campaign.
      places: folder of the material, and the folder that gets a folder for each attempt.
    """
    size = 1 if family.is_fresh else ATTEMPTS_OF_A_PROCESS
    todo = list(numbers)
    batches = [todo[start : start + size] for start in range(0, len(todo), size)]
    workers: list[_Worker] = []
    while batches or workers:
        while batches and len(workers) < processes:
            workers.append(_start(family, batches.pop(0), seed, places))
        ready, _, _ = select.select([worker.pipe for worker in workers], [], [], 0.05)
        for worker in list(workers):
            has_ended = False
            if worker.pipe in ready:
                piece = os.read(worker.pipe, 1 << 16)
                has_ended = not piece
                worker.text += piece
                *lines, worker.text = worker.text.split(b"\n")
                for line in lines:
                    yield Result(**json.loads(line))
                    worker.left.pop(0)
                    worker.begun = time.monotonic()
                    worker.cpu = _cpu_seconds(worker.process)
            fault = "" if has_ended else _exceeded(worker)
            if fault or has_ended:
                workers.remove(worker)
                status = _end(worker)
                if worker.left:
                    detail = fault or f"{SIGNAL}: status {status}"
                    seconds = time.monotonic() - worker.begun
                    kind = detail.partition(":")[0]
                    yield Result(family.name, worker.left.pop(0), kind, True, detail, seconds, 0)
                if worker.left:
                    batches.insert(0, worker.left)


def _start(
    family: Family, numbers: list[int], seed: int, places: tuple[pathlib.Path, pathlib.Path]
) -> _Worker:
    readable, writable = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.close(readable)
            os.setpgid(0, 0)
            for number in numbers:
                result = make(family, number, seed, places)
                os.write(writable, json.dumps(dataclasses.asdict(result)).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writable)
    return _Worker(process, readable, family, list(numbers), time.monotonic())


def make(
    family: Family, number: int, seed: int, places: tuple[pathlib.Path, pathlib.Path]
) -> Result:
    """Makes one attempt in this process; its folder stays only if it has found a fault."""
    material, root = places
    folder = root / f"{family.name}-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    trial = Trial(random.Random(f"{seed} {family.name} {number}"), material, folder)
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # the peak of memory starts anew
    begun = time.monotonic()
    outcome, detail = "", ""
    try:
        outcome = family.attempt(trial)
        if left := leftovers(folder):
            raise FoundError("leftovers", ", ".join(left))
    except FoundError as found:
        outcome, detail = found.kind, found.detail
    except BaseException as error:
        import traceback

        outcome, detail = "fault of the attempt", f"{error}\n{traceback.format_exc()[-2000:]}"
    seconds = time.monotonic() - begun
    if not detail:
        _delete(folder)
    numbers = family.name, number
    return Result(*numbers, outcome, bool(detail), detail, seconds, _peak("self"), trial.refusals)


def _delete(folder: pathlib.Path) -> None:
    for place, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _exceeded(worker: _Worker) -> str:
    """Returns what bound a worker exceeds, or ""."""
    seconds, cpu_seconds = (
        time.monotonic() - worker.begun,
        _cpu_seconds(worker.process) - worker.cpu,
    )
    if seconds > MOST_SECONDS or cpu_seconds > MOST_CPU_SECONDS:
        return f"{HANG}: after {seconds:.0f} s, of which the process worked {cpu_seconds:.0f}"
    peak = _peak(str(worker.process))
    if peak > MOST_BYTES:
        return f"{MEMORY}: {peak >> 20} MiB"
    return ""


def _cpu_seconds(process: int) -> float:
    """Returns the seconds that a process has worked; 0 if it is gone."""
    try:
        with open(f"/proc/{process}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak(process: str) -> int:
    """Returns the peak memory of a process in bytes; 0 if it is gone."""
    try:
        with open(f"/proc/{process}/status") as status:
            found = [line.split()[1] for line in status if line.startswith("VmHWM")]
    except OSError:
        found = []
    return int(found[0]) << 10 if found else 0


def _end(worker: _Worker) -> int:
    """Ends a worker and all that it has started; returns the status."""
    os.close(worker.pipe)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.process, signal.SIGKILL)
    _, status = os.waitpid(worker.process, 0)
    return os.waitstatus_to_exitcode(status)


def limit_files(most_bytes: int) -> None:
    """Lets no file of this process grow further, as on a full disk; -1 lifts the limit."""
    most = resource.RLIM_INFINITY if most_bytes < 0 else most_bytes
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
