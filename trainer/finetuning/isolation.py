"""Fine-tunes in a process of its own.

The programs that XLA compiles for a model stay in memory until their process ends, some hundred
megabytes for each fine-tuning. This module itself does not import TensorFlow; its processes do.
"""

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from beambert.errors import InputError
from beambert.process import loading, passed_on

if TYPE_CHECKING:
    from beambert.trainer.finetuning.job import FinetuningJob


def finetune_in_process(job: "FinetuningJob", strategy: str, tpu: str | None) -> dict[str, float]:
    """Runs `finetune` in a new process and returns its results.

    Args:
      job: fine-tuning to run.
      strategy, tpu: see `make_strategy`.

    Raises:
      InputError: the job cannot be run, or its process was killed.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=_begin) as pool:
        try:
            # The child saves its state first.
            with passed_on(_terminate_children):
                return pool.submit(_finetune, job, strategy, tpu).result()
        except BrokenProcessPool as error:
            raise InputError(
                f"{job.output.model}: the run was killed, perhaps for want of memory; "
                "give the same command again, which continues it"
            ) from error


def _terminate_children() -> None:
    for child in multiprocessing.active_children():
        child.terminate()


def _begin() -> None:
    # A terminal sends these to this process, too, and the parent passes them on as SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # A process that outlived its parent would hold the folder when the command is given again.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Unpickling the job imports TensorFlow, too. Importing it first hides what it prints.
    with loading():
        import beambert.trainer.finetuning.job  # noqa: F401


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


def _finetune(job: "FinetuningJob", strategy: str, tpu: str | None) -> dict[str, float]:
    from beambert.trainer.finetuning.run import finetune
    from beambert.trainer.loop.strategy import make_strategy

    return finetune(job, make_strategy(strategy, tpu))
