"""Sweeps: several fine-tunings, each in its own process."""

import dataclasses
import itertools
import json
import multiprocessing
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from beambert import io
from beambert.errors import InputError
from beambert.folders import describe_difference, folders_held
from beambert.io import is_temporary
from beambert.model_files import BEST_FOLDER
from beambert.pipelines.tasks.task import TRAIN
from beambert.process import chips_for_children, loading, passed_on
from beambert.trainer import model_folders
from beambert.trainer.finetuning.job import FLAGS_OF, FinetuningJob, make_plan
from beambert.trainer.loop.config import Devices
from beambert.trainer.loop.engine import choose_engine

if TYPE_CHECKING:
    from beambert.trainer.finetuning.job import FinetuningJob


def finetune_in_process(job: "FinetuningJob", devices: Devices) -> dict[str, float]:
    """Runs `finetune` in a new process and returns its results.

    Args:
      job: fine-tuning to run.
      devices: what computes.

    Raises:
      InputError: the job cannot be run, or its process was killed.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        max_workers=1, mp_context=context, initializer=_begin, initargs=(devices,)
    ) as pool:
        try:
            # The child saves its state first.
            with passed_on(_terminate_children):
                with chips_for_children():
                    future = pool.submit(_finetune, job, devices)  # starts the process
                return future.result()
        except BrokenProcessPool as error:
            raise InputError(
                f"{job.output.model_dir}: the run was killed, perhaps for want of memory; "
                "give the same command again, which continues it"
            ) from error


def _terminate_children() -> None:
    for child in multiprocessing.active_children():
        child.terminate()


def _begin(devices: Devices) -> None:
    # A terminal sends these to this process, too, and the parent passes them on as SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # A process that outlived its parent would hold the folder when the command is given again.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Unpickling the job imports Keras, too. Importing it first hides what it prints.
    with loading():
        choose_engine(devices)
        import beambert.trainer.finetuning.job  # noqa: F401


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


def _finetune(job: "FinetuningJob", devices: Devices) -> dict[str, float]:
    from beambert.trainer.finetuning.run import finetune
    from beambert.trainer.loop.engine import make_engine

    return finetune(job, make_engine(devices))


SWEEP_FILE = "sweep.json"
# The hyper-parameters that a grid varies.
POINT = ("learning_rate", "train_batch_size", "num_train_epochs")


@dataclasses.dataclass(frozen=True)
class Grid:
    """Values of hyper-parameters to combine; each field has the name of its flag."""

    learning_rate: tuple[float, ...]
    train_batch_size: tuple[int, ...]
    num_train_epochs: tuple[float, ...]

    def points(self) -> list[tuple[float, int, float]]:
        """Returns all combinations, as tuples in the order of `POINT`."""
        return list(
            itertools.product(self.learning_rate, self.train_batch_size, self.num_train_epochs)
        )

    def of_batches_up_to(self, examples: int) -> "Grid":
        """Returns the grid without the batch sizes that exceed the number of examples."""
        sizes = tuple(size for size in self.train_batch_size if size <= examples)
        return dataclasses.replace(self, train_batch_size=sizes)


GRIDS = {
    # Devlin et al. 2019: learning rates of section 4.1, the rest of appendix A.3.
    "paper": Grid((5e-5, 4e-5, 3e-5, 2e-5), (16, 32), (2, 3, 4)),
    # README of google-research/bert on its smaller models, March 2020.
    "small": Grid((3e-4, 1e-4, 5e-5, 3e-5), (8, 16, 32, 64, 128), (4,)),
}


def sweep(
    job: FinetuningJob,
    grid: Grid,
    num_seeds: int,
    finetune: Callable[[FinetuningJob], dict[str, float]],
) -> dict[str, Any]:
    """Does the runs that are not finished yet, and returns the content of sweep.json.

    Args:
      job: settings that all runs share; the first run of a combination has its seed.
      grid: values to combine.
      num_seeds: number of runs for each combination.
      finetune: does one run and returns its results.

    Raises:
      InputError: a setting cannot be used, or the folder holds another sweep.
    """
    if os.environ.get("TF_CONFIG"):
        raise InputError("--sweep: each run takes one host; unset TF_CONFIG")
    model_dir = job.output.model_dir
    common = _common(job, min(grid.train_batch_size))
    examples = common["examples"][TRAIN]
    possible = grid.of_batches_up_to(examples)
    if large := sorted(set(grid.train_batch_size) - set(possible.train_batch_size)):
        sizes = ", ".join(map(str, large))
        print(
            f"left out: batch sizes {sizes}, more than the {examples} training examples", flush=True
        )
    io.make_folder(model_dir, "--model_dir")
    with folders_held([model_dir], "--model_dir"):
        return _run(job, possible, num_seeds, finetune, _open(model_dir, common))


def _run(
    job: FinetuningJob,
    grid: Grid,
    num_seeds: int,
    finetune: Callable[[FinetuningJob], dict[str, float]],
    state: dict[str, Any],
) -> dict[str, Any]:
    """Continues a sweep from the content of its sweep.json."""
    model_dir, metric = job.output.model_dir, job.task.metrics[0]
    seeds = range(job.loop.random_seed, job.loop.random_seed + num_seeds)
    planned = [(*point, seed) for seed in seeds for point in grid.points()]
    left = [run for run in planned if _find(state, run) is None]
    done = len(planned) - len(left)
    print(f"{model_dir}: {len(planned)} runs, {done} of them done", flush=True)
    started = time.monotonic()
    for number, run in enumerate(left, start=1):
        folder = f"{model_dir}/runs/{_name(run)}"
        print(
            f"run {len(planned) - len(left) + number} of {len(planned)}: {_name(run)}", flush=True
        )
        results = finetune(_job_of(job, run, folder))
        best = max((row["results"][metric] for row in state["runs"]), default=float("-inf"))
        if results[metric] > best:
            io.move(folder, f"{model_dir}/{BEST_FOLDER}")
        else:
            io.delete(folder)
        row = dict(zip((*POINT, "random_seed"), run, strict=True))
        state["runs"].append(row | {"results": results})
        _write(model_dir, state)
        seconds = (time.monotonic() - started) / number * (len(left) - number)
        print(f"time left: about {seconds / 60:.0f} min", flush=True)
    print(table(state["runs"], metric))
    return state


def table(runs: Sequence[dict[str, Any]], metric: str) -> str:
    """Returns a Markdown table of the combinations, the best mean over seeds first."""
    by_point: dict[tuple, list[float]] = {}
    for row in runs:
        key = tuple(row[name] for name in POINT)
        by_point.setdefault(key, []).append(row["results"][metric])
    lines = [f"| {' | '.join(POINT)} | runs | mean {metric} | deviation | best |", "|---" * 7 + "|"]
    for key, values in sorted(by_point.items(), key=lambda item: -statistics.mean(item[1])):
        spread = f"{statistics.stdev(values):.4f}" if len(values) > 1 else ""
        cells = [f"{value:g}" for value in key] + [str(len(values))]
        cells += [f"{statistics.mean(values):.4f}", spread, f"{max(values):.4f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _common(job: FinetuningJob, batch_size: int) -> dict[str, Any]:
    """Returns the settings that all runs share."""
    loop = dataclasses.replace(job.loop, train_batch_size=batch_size)
    identity = make_plan(dataclasses.replace(job, loop=loop)).identity
    # JSON turns tuples into lists. The conversion makes this comparable with a sweep.json.
    identity = json.loads(json.dumps(identity | {"warmup_proportion": job.warmup_proportion}))
    for name in ("num_train_steps", "num_warmup_steps", "learning_rate"):
        del identity["optimizer"][name]
    for name in ("train_batch_size", "random_seed"):
        del identity["loop"][name]
    return identity


def _open(model_dir: str, common: dict[str, Any]) -> dict[str, Any]:
    path = f"{model_dir}/{SWEEP_FILE}"
    if not io.exists(path):
        if not all(map(is_temporary, io.list_folder(model_dir))):
            raise InputError(
                f"--model_dir={model_dir}: holds something other than a sweep; "
                "choose another folder"
            )
        state = {"job": common, "runs": []}
        # Written before the first run, so that the folder counts as a sweep's if that is killed.
        _write(model_dir, state)
        return state
    state = io.read_object(path, "job", "runs", remedy="choose another --model_dir")
    if difference := describe_difference(state["job"], common, FLAGS_OF):
        raise InputError(
            f"--model_dir={model_dir}: holds the sweep of another job ({difference}); "
            "choose another folder"
        )
    return state


def _find(state: dict[str, Any], run: tuple) -> dict[str, Any] | None:
    names = (*POINT, "random_seed")
    return next((r for r in state["runs"] if tuple(r[name] for name in names) == run), None)


def _name(run: tuple) -> str:
    learning_rate, batch_size, epochs, seed = run
    return f"learning_rate={learning_rate:g},batch={batch_size},epochs={epochs:g},seed={seed}"


def _job_of(job: FinetuningJob, run: tuple, folder: str) -> FinetuningJob:
    learning_rate, batch_size, epochs, seed = run
    loop = dataclasses.replace(job.loop, train_batch_size=batch_size, random_seed=seed)
    return dataclasses.replace(
        job,
        learning_rate=learning_rate,
        num_train_epochs=epochs,
        loop=loop,
        output=model_folders.TrainingFolders(folder),
    )


def _write(model_dir: str, state: dict[str, Any]) -> None:
    io.write_bytes(f"{model_dir}/{SWEEP_FILE}", json.dumps(state, indent=1).encode())
