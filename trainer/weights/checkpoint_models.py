"""Checkpoints of a pre-training as models, also while it is running."""

import contextlib
import tempfile
from collections.abc import Iterator

import tensorflow as tf

from beambert import storage
from beambert.errors import InputError
from beambert.folders import MARKER_FILE
from beambert.model.pretrainer import BertPretrainer
from beambert.model_files import CHECKPOINTS_FOLDER, CONFIG_FILE, PRETRAINING, TRAINING_FILE
from beambert.trainer import model_folders
from beambert.trainer.models import build_pretrainer


@contextlib.contextmanager
def model_at(path: str, step: int, checkpoints: str | None = None) -> Iterator[str]:
    """Yields a temporary model folder with the weights that a pre-training had at a step.

    Args:
      path: model folder of the pre-training, finished or not.
      step: step of one of the checkpoints.
      checkpoints: folder of the checkpoints; None for `path`/checkpoints.

    Raises:
      InputError: there is no such checkpoint, or the folder is not that of a pre-training.
    """
    path = path.rstrip("/")
    folder = (checkpoints or f"{path}/{CHECKPOINTS_FOLDER}").rstrip("/")
    prefix = f"{folder}/ckpt-{step}"
    if not storage.exists(f"{prefix}.index"):
        found = [name.split(".")[0] for name in storage.list_folder(folder)]
        steps = sorted({int(n[5:]) for n in found if n.startswith("ckpt-") and n[5:].isdecimal()})
        advice = f"choose one of its steps ({', '.join(map(str, steps))})"
        if not steps:
            advice = "if the pre-training had a --checkpoint_dir, give it here, too"
        raise InputError(f"--checkpoint={step}: {folder} has no such checkpoint; {advice}")
    with tempfile.TemporaryDirectory(prefix="beambert-") as made:
        vocabulary = model_folders.read_beside(path, "--model", storage.read_bytes, storage.exists)
        for name in (CONFIG_FILE, *vocabulary.files(), TRAINING_FILE):
            storage.copy(f"{path}/{name}", f"{made}/{name}")
        storage.write_bytes(f"{made}/{MARKER_FILE}", b"{}")
        opened = model_folders.open_model(made, "--model")
        if opened.training["kind"] != PRETRAINING:
            raise InputError(
                f"--checkpoint={step}: --model={path} is not a pre-training; leave it out"
            )
        model_folders.save_weights(_restored(prefix, opened), made)
        yield made


def _restored(prefix: str, opened: model_folders.ModelFolder) -> BertPretrainer:
    """Returns the model of a checkpoint of `Trainer`, which has the variables by name."""
    model = build_pretrainer(opened.training, opened.config)
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    try:
        status = tf.train.Checkpoint(model=variables).restore(prefix)
        status.assert_existing_objects_matched().expect_partial()
    except (tf.errors.OpError, AssertionError, ValueError) as error:
        raise InputError(
            f"{prefix}: cannot be read ({storage.reason(error)}); choose another --checkpoint"
        ) from error
    return model
