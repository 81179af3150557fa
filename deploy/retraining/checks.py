"""What a step would refuse: it is refused when the run is planned, before anything is spent.

The checks need the packages that make the records, so the steps on trainers leave them out.
"""

import os

from beambert.deploy.retraining.runs import (
    CLASSIFIER,
    ENCODER,
    FIRST,
    FURTHER,
    RECORDS,
    Retraining,
    command,
    next_run,
)
from beambert.errors import InputError
from beambert.flags import read_job
from beambert.pipelines import create_pretraining_data
from beambert.pipelines.pretraining_data.job import PretrainingDataJob
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.files import split_path
from beambert.pipelines.tasks.task import DEV, TRAIN
from beambert.trainer.commands import finetune, pretrain

# The folder under which Vertex AI mounts buckets.
MOUNTED = "/gcs/"
# Flags after which a run could not go on: (section, flag) -> what the flag does.
_UNFIT = {
    ("pretrain", "dry_run"): "trains no encoder",
    ("pretrain", "finish"): "ends a training that a run has not begun",
    ("pretrain", "extend"): "extends a training that a run has not begun",
    ("finetune", "sweep"): "makes several models in the place of one",
    ("evaluate", "exit_status"): "makes an error of a model that is refused",
}
# Only the machines that train have the package of a tracker.
_OF_TRAINERS = "--tracker="


def check_values(config: Retraining) -> None:
    """Refuses flags that a step would refuse, or after which the run could not go on.

    Raises:
      InputError: a value cannot be used; the message names its section.
    """
    pretrain_tables = (config.pretrain, *(config.pretrain.get(p, {}) for p in (FIRST, FURTHER)))
    for (section, name), what in _UNFIT.items():
        tables = pretrain_tables if section == "pretrain" else (getattr(config, section),)
        if any(name in table for table in tables):
            raise InputError(f"--config: {section}.{name}: {what}; leave it out")
    if "init" in config.pretrain or "init" in config.pretrain.get(FURTHER, {}):
        # It would stand in the place of the published encoder, and each run forget the others.
        raise InputError(
            "--config: pretrain.init: further runs continue from the published encoder; move it to "
            "[pretrain.first]"
        )
    earlier = f"{config.workspace}/runs/000001"
    for run in (next_run(config, (), 1, 1), next_run(config, [earlier], 2, 1)):
        arguments = {
            step: [each for each in command(step, config, run)[1:] if _is_checked(each)]
            for step in (RECORDS, ENCODER, CLASSIFIER)
        }
        try:
            section = "data"
            parser = create_pretraining_data.build_parser()
            read_job(PretrainingDataJob, parser.parse_known_args(arguments[RECORDS])[0])
            section = "pretrain"
            pretrain.check_values(arguments[ENCODER])
            section = "finetune"
            finetune.check_values(arguments[CLASSIFIER])
        except InputError as error:
            raise InputError(f"--config: {section}: {error}") from error


def _is_checked(argument: str) -> bool:
    return not argument.startswith(_OF_TRAINERS)


def check_vocabulary(config: Retraining, is_dry: bool) -> None:
    """Refuses a vocabulary or tokenizer that is not there.

    Raises:
      InputError: there is no such file.
    """
    from beambert.pipelines.storage.tensorflow_files import exists

    name = "tokenizer" if config.tokenizer else "vocab_file"
    path = getattr(config, name)
    if not _is_elsewhere(path, is_dry) and not exists(path):
        raise InputError(
            f"--config: {name}: {path}: no such file; make it with `beambert vocab`, or correct "
            "the path"
        )


def check_task(config: Retraining, is_dry: bool) -> None:
    """Refuses a task without its examples before the encoder is trained, which takes days.

    Raises:
      InputError: a file of the task is missing.
    """
    folder = str(config.finetune["data_dir"])
    if _is_elsewhere(folder, is_dry):
        return
    for split in (TRAIN, config.evaluate.get("split", DEV)):
        try:
            split_path(find_task(config.finetune["task"]), folder, split)
        except InputError as error:
            raise InputError(f"--config: finetune: {error}") from error


def _is_elsewhere(path: str, is_dry: bool) -> bool:
    """A machine that prints the steps of a cloud project lacks its mounted buckets."""
    return is_dry and path.startswith(MOUNTED) and not os.path.isdir(MOUNTED)
