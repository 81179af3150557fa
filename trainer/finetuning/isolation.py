"""Fine-tunings one after the other, each in a process of its own.

What XLA compiles for a model stays in a process until its end, some hundred megabytes each time.
No TensorFlow until a process has begun.
"""

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.loading import loading

if TYPE_CHECKING:
    from beambert.trainer.finetuning.plan import FinetuningJob


def finetune_in_process(job: "FinetuningJob", strategy: str, tpu: str | None) -> dict[str, float]:
    """Returns `finetune`'s results.

    Args:
      job: what to do.
      strategy, tpu: see `make_strategy`.

    Raises:
      InputError: what was given can't be used, or the process was killed.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=_begin) as pool:
        try:
            return pool.submit(_finetune, job, strategy, tpu).result()
        except BrokenProcessPool as error:
            raise InputError(
                f"{job.output.model}: the run was killed, perhaps for want of memory; the same "
                "command continues"
            ) from error


def _begin() -> None:
    # Whoever gives the command again would find an orphan at work in the folder.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Before the job is read, which would import it and print.
    with loading():
        import beambert.trainer.finetuning.job  # noqa: F401


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


def _finetune(job: "FinetuningJob", strategy: str, tpu: str | None) -> dict[str, float]:
    from beambert.trainer.finetuning.job import finetune
    from beambert.trainer.loop.strategy import make_strategy

    return finetune(job, make_strategy(strategy, tpu))
