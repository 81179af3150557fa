"""Revisions of a training in its folder: ends it early, or goes on from the finished one.

The marker of a model folder holds the settings of its training, revisions included. So a revision
counts from the moment when the marker is written. Afterwards the command of the training continues
it, with or without `--finish` and `--extend`.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from beambert.errors import InputError
from beambert.json_objects import parse_object
from beambert.pipelines.storage import claims, tensorflow_files
from beambert.pipelines.storage.claims import MARKER_FILE, UNFINISHED_FILE
from beambert.pipelines.storage.model_files import CONFIG_FILE, TRAINING_FILE
from beambert.trainer import model_folders
from beambert.trainer.loop.checkpoints import checkpoint_steps
from beambert.trainer.loop.config import (
    EXTEND,
    FINISH,
    LINEAR,
    OptimizerConfig,
    Revision,
    default_warmup_steps,
)
from beambert.trainer.models import objective_of
from beambert.trainer.pretraining.job import FLAGS_OF, PretrainingJob
from beambert.trainer.pretraining.plan import PretrainingPlan, make_plan
from beambert.trainer.weights.new_tokens import PIECES
from beambert.trainer.weights.positions import KEEP

# The flags whose values training.json has under their names.
_OPTIMIZER_FLAGS = (
    "learning_rate",
    "num_train_steps",
    "num_warmup_steps",
    "weight_decay_rate",
    "beta_1",
    "beta_2",
    "optimizer",
)
_LOOP_FLAGS = (
    "train_batch_size",
    "random_seed",
    "gradient_accumulation_steps",
    "dtype",
    "save_checkpoints_steps",
    "eval_steps",
)
# Those that it has only where they are not the defaults.
_MASK_FLAGS = ("mask_rate", "mask_replacements", "do_whole_word_mask")


def recorded_flags(path: str, model: str | None, init: str | None) -> dict[str, Any]:
    """Returns the values of the flags of the training in a folder; none if it cannot be read.

    Flags of the data are not among them, as its folders may have moved.

    Args:
      path: the model folder.
      model, init: the flags that are given, which exclude each other.

    Raises:
      InputError: the training is by time, and so has no number of steps to revise.
    """
    path = path.rstrip("/")
    if TRAINING_FILE not in tensorflow_files.list_folder(path):
        return {}
    try:
        training = parse_object(tensorflow_files.read_bytes(f"{path}/{TRAINING_FILE}"))
        seconds = training["optimizer"].get("budget_seconds")
        found = {name: training["optimizer"][name] for name in _OPTIMIZER_FLAGS}
        found |= {name: training["loop"][name] for name in _LOOP_FLAGS}
        found["schedule"] = training["optimizer"].get("schedule", LINEAR)
        if "decay_share" in training["optimizer"]:
            found["decay_share"] = training["optimizer"]["decay_share"]
        found["masking"], from_init = training["masking"], training["init"]
        found |= {name: training[name] for name in _MASK_FLAGS if name in training}
        found["objective"] = objective_of(training)
        found["distill_from"] = training.get("distill_from")
        found["attend_within_documents"] = training.get("attend_within_documents", False)
        found["batch_ramp_share"] = training.get("batch_ramp_share", 0.0)
        found["generator_size"] = training.get("generator_size")
    except (ValueError, LookupError, TypeError):
        return {}  # The marker decides what is refused.
    if seconds is not None:
        raise InputError(
            f"--model_dir={path}: holds a training of --budget={seconds:g}s, whose schedule no "
            "--finish or --extend changes; give its own command to continue it, or another "
            f"--model_dir and --init={path} to go on from its model"
        )
    if from_init and not model:
        found["init"] = from_init
        found["init_positions"] = training.get("init_positions", KEEP)
        found["init_tokens"] = training.get("init_tokens", PIECES)
    elif not from_init and not init:
        found["model"] = f"{path}/{CONFIG_FILE}"
    return found


def with_recorded_revisions(job: PretrainingJob) -> PretrainingJob:
    """Returns the job with the revisions that its folder records.

    Raises:
      InputError: the training in the folder was planned for another number of steps.
    """
    settings = _recorded(job.output.model).get("optimizer", {})
    if settings.get("budget_seconds") is not None:
        return _with_recorded_budget(job, settings)
    asked, planned = job.optimizer.num_train_steps, settings.get("num_train_steps")
    if planned not in (None, asked):
        if job.finish is not None or job.extend is not None:
            raise InputError(
                f"--num_train_steps={asked}: the training in --model_dir={job.output.model} is "
                f"planned for {planned} steps; leave --num_train_steps out"
            )
        other = f"--extend={asked}" if asked > planned else "--finish"
        raise InputError(
            f"--num_train_steps={asked}: the training in --model_dir={job.output.model} is planned "
            f"for {planned} steps; give that number, and {other} to "
            + ("go on from its end" if asked > planned else "end it early")
        )
    revisions = tuple(Revision(**values) for values in settings.get("revisions", ()))
    return _with_revisions(job, revisions)


def _with_recorded_budget(job: PretrainingJob, settings: Mapping[str, Any]) -> PretrainingJob:
    """Returns the job with the schedule of the training by time that its folder records.

    Raises:
      InputError: the job has another budget, or none.
    """
    seconds, path = settings["budget_seconds"], job.output.model
    if job.budget is None or job.budget.seconds != seconds:
        flag = "--budget is missing" if job.budget is None else "--budget is another one"
        raise InputError(
            f"--model_dir={path}: holds a training of --budget={seconds:g}s, and {flag}; give that "
            "one, or another folder, which --init can start from the model of this one"
        )
    optimizer = dataclasses.replace(
        job.optimizer,
        num_train_steps=settings["num_train_steps"],
        num_warmup_steps=settings["num_warmup_steps"],
    )
    return dataclasses.replace(job, optimizer=optimizer)


def revise(plan: PretrainingPlan, chief: bool, wait_for_all: Callable[[], None]) -> PretrainingPlan:
    """Returns the plan with the revision that its job asks for, and records it in the folder.

    A revision that is recorded already is not made again.

    Args:
      plan: plan with the revisions that the folder records.
      chief: whether this worker writes to the folder.
      wait_for_all: function that returns once all workers have called it.

    Raises:
      InputError: the folder holds no such training, or it cannot be revised so.
    """
    job, path = plan.job, plan.job.output.model
    flag = "--finish" if job.extend is None else f"--extend={job.extend}"
    names = tensorflow_files.list_folder(path)
    if not {MARKER_FILE, UNFINISHED_FILE} & set(names):
        raise InputError(f"{flag}: --model_dir={path} holds no training yet; leave it out")

    def read(name: str) -> bytes:
        return tensorflow_files.read_bytes(f"{path}/{name}", "--model_dir")

    with model_folders.held(path, chief):
        finished = claims.is_finished(path, names, read, plan.identity, "--model_dir", FLAGS_OF)
        steps = checkpoint_steps(job.output.checkpoints)
        revision = (
            finishing(job.finish, finished, job.optimizer, steps)
            if job.extend is None
            else extension(job.extend, finished, job.optimizer, steps)
        )
        if revision is None:
            return plan
        revised = make_plan(_with_revisions(job, (*job.optimizer.revisions, revision)))
        wait_for_all()  # Every worker has read the folder as it was.
        if chief:
            model_folders.reopen(job.output, revised.identity)
        wait_for_all()  # From here on it is as the chief has left it.
    return revised


def finishing(
    share: float, finished: bool, optimizer: OptimizerConfig, steps: list[int]
) -> Revision | None:
    """Returns the revision of `--finish`; None if the training ends without one.

    Args:
      share: share of the steps done in which the rate goes to 0.
      finished: whether the training is finished.
      optimizer: schedule with the revisions so far.
      steps: steps of the checkpoints, ascending.

    Raises:
      InputError: there is no checkpoint.
    """
    last = optimizer.revisions[-1] if optimizer.revisions else None
    if finished or (last and last.kind == FINISH):
        return None
    if not steps:
        raise InputError(
            "--finish: the training has no checkpoint yet; give the command without it"
        )
    done = steps[-1]
    if done >= optimizer.last_step:
        return None
    end = min(done + math.ceil(share * done), optimizer.last_step)
    return Revision(FINISH, done, end)


def extension(
    last_step: int, finished: bool, optimizer: OptimizerConfig, steps: list[int]
) -> Revision | None:
    """Returns the revision of `--extend`; None if the training has it already.

    Args:
      last_step: number of steps of the whole training that are asked for.
      finished, optimizer, steps: see `finishing`.

    Raises:
      InputError: the training is not finished, has as many steps, or lacks its last checkpoint.
    """
    done = optimizer.last_step
    last = optimizer.revisions[-1] if optimizer.revisions else None
    if last and last.kind == EXTEND and last.last_step == last_step:
        return None
    if not finished:
        raise InputError(
            f"--extend={last_step}: the training is not finished; give the command without it, or "
            "with --finish, first"
        )
    if last_step <= max(done, optimizer.num_warmup_steps):
        raise InputError(
            f"--extend={last_step}: the finished training has {done} steps already; give the "
            "number of steps in all, those included, such as "
            f"{2 * max(done, optimizer.num_warmup_steps)}"
        )
    if done not in steps:
        raise InputError(
            f"--extend={last_step}: the checkpoint of step {done} is missing, which has the state "
            "of the optimizer; start another training with --init instead"
        )
    return Revision(EXTEND, done, last_step, default_warmup_steps(last_step - done))


def _with_revisions(job: PretrainingJob, revisions: tuple[Revision, ...]) -> PretrainingJob:
    optimizer = dataclasses.replace(job.optimizer, revisions=revisions)
    return dataclasses.replace(job, optimizer=optimizer)


def _recorded(path: str) -> dict[str, Any]:
    """Returns the settings in the marker of a model folder; none if there is no readable one."""
    names = tensorflow_files.list_folder(path)
    # If both are there, the first one counts, as in `claims.is_finished`.
    state = next((name for name in (MARKER_FILE, UNFINISHED_FILE) if name in names), None)
    if state is None:
        return {}
    try:
        return parse_object(tensorflow_files.read_bytes(f"{path}/{state}", "--model_dir"))
    except ValueError:
        return {}  # `claims.is_finished` treats it as an empty one too.
