"""`run_fn` for TFX's Trainer component: fine-tunes on features that a TFX pipeline passes to it.

It follows the convention of `tfx.v1.components.FnArgs` and is tested with a plain namespace that
has the same fields. TFX cannot be installed beside this project's libraries, so no TFX pipeline has
run it.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beambert.errors import InputError
from beambert.pipelines.features.contract import feature_names
from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.storage.model_files import SAVED_MODEL_FOLDER
from beambert.pipelines.tasks.flags import task_of
from beambert.pipelines.tasks.task import DEV, TRAIN
from beambert.trainer.commands.finetune import build_parser, make_job, run_finetuning


def run_fn(fn_args: Any) -> None:
    """Fine-tunes an encoder and writes a model folder and its SavedModel.

    Args:
      fn_args: a namespace with these fields. `train_files` and `eval_files` are glob patterns of
        the records of `beambert features`, in any order, compressed or not. `schema_path` is their
        schema. `serving_model_dir` is the path of the SavedModel to write. `model_run_dir` is the
        path of the model folder to write, with its logs. `custom_config` holds the flags of
        `beambert finetune` by name; its `features` is the folder that the records come from.

    Raises:
      InputError: an argument cannot be used.
    """
    given = fn_args.custom_config | {"model_dir": fn_args.model_run_dir}
    flags = build_parser().parse_args(
        [f"--{name}={each}" for name, each in given.items() if each is not None]
    )
    if not flags.features or flags.sweep:
        raise InputError(
            "custom_config: needs features, the folder of the features, and no sweep; change it"
        )
    job = make_job(flags, task_of(flags), flags.data_dir, flags.model_dir)
    schema = schema_pb2.Schema()
    text_format.Parse(tensorflow_files.read_text(fn_args.schema_path), schema)
    if {feature.name for feature in schema.feature} != feature_names(job.task.kind):
        raise InputError(
            f"schema_path={fn_args.schema_path}: is not the schema of a {job.task.kind} task; "
            "name that of `beambert features`"
        )
    files = {TRAIN: _matches(fn_args.train_files), DEV: _matches(fn_args.eval_files)}
    features = dataclasses.replace(job.features, files=files)
    run_finetuning(dataclasses.replace(job, features=features), flags)
    model_dir = job.output.model
    tensorflow_files.copy(f"{model_dir}/{SAVED_MODEL_FOLDER}", fn_args.serving_model_dir)


def _matches(patterns: Sequence[str]) -> list[str]:
    found = sorted(path for pattern in patterns for path in tensorflow_files.match(pattern))
    if not found:
        raise InputError(
            f"train_files, eval_files: {', '.join(patterns)} match no file; check the paths"
        )
    return found
