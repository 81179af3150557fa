"""`run_fn` for TFX's Trainer component: fine-tuning on features that a pipeline hands on.

Written to the convention of `tfx.v1.components.FnArgs` and tested with a plain namespace of its
fields; TFX cannot be installed beside this project's libraries, so no TFX pipeline has run it.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beambert.pipelines.features.contract import feature_names
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.storage.weights import SAVED_MODEL_FOLDER
from beambert.pipelines.tasks.flags import task_of
from beambert.pipelines.tasks.task import DEV, TRAIN
from beambert.trainer.commands.finetune import build_parser, make_job, run_job


def run_fn(fn_args: Any) -> None:
    """Fine-tunes; the model folder, with its logs, is `model_run_dir`.

    Args:
      fn_args: `train_files` and `eval_files`, patterns of records that `beambert features` made, in
        any order, .gz or not; `schema_path`, their schema; `serving_model_dir`, gets the
        SavedModel; `model_run_dir`, empty; `custom_config`, the flags of `beambert finetune` by
        name, with `features` the folder that the records come from.

    Raises:
      InputError: what was given can't be used.
    """
    given = fn_args.custom_config | {"model_dir": fn_args.model_run_dir}
    flags = build_parser().parse_args(
        [f"--{name}={of}" for name, of in given.items() if of is not None]
    )
    if not flags.features or flags.sweep:
        raise InputError("custom_config: name the features' folder as features, and no sweep")
    job = make_job(flags, task_of(flags), flags.data_dir, flags.model_dir)
    schema = schema_pb2.Schema()
    text_format.Parse(tensorflow_files.read_text(fn_args.schema_path), schema)
    if {feature.name for feature in schema.feature} != feature_names(job.task.kind):
        raise InputError(f"schema_path={fn_args.schema_path}: not of a {job.task.kind} task")
    files = {TRAIN: _matches(fn_args.train_files), DEV: _matches(fn_args.eval_files)}
    features = dataclasses.replace(job.features, files=files)
    run_job(dataclasses.replace(job, features=features), flags)
    model_dir = job.output.model
    tensorflow_files.copy(f"{model_dir}/{SAVED_MODEL_FOLDER}", fn_args.serving_model_dir)


def _matches(patterns: Sequence[str]) -> list[str]:
    found = sorted(path for pattern in patterns for path in tensorflow_files.match(pattern))
    if not found:
        raise InputError(f"train_files, eval_files: {', '.join(patterns)} match no file")
    return found
