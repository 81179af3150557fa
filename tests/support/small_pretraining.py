"""The flags of a small pre-training, and the weights that it leaves."""

import pathlib
import shutil

import numpy as np
import pytest
import safetensors.numpy

from beambert.errors import InputError
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.pretraining import run

STEPS = 6


def flags(records, config, model_dir, **others) -> list[str]:
    """Returns the command line; None leaves a flag out."""
    values = {
        "data": records,
        "model": config,
        "model_dir": model_dir,
        "num_train_steps": STEPS,
        "train_batch_size": 8,
        "learning_rate": 5e-3,
        "eval_steps": 3,
        "save_checkpoints_steps": 3,
    } | others
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def weights_of(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the arrays in the file of weights of a model folder."""
    return safetensors.numpy.load_file(folder / "model.safetensors")


def without_last_checkpoint(folder: pathlib.Path) -> None:
    """Takes an unfinished training back to its last checkpoint but one."""
    shutil.rmtree(folder / "checkpoints" / f"ckpt-{STEPS:06d}")


def interrupted_and_continued(arguments: list[str], folder: pathlib.Path, monkeypatch) -> None:
    """Trains, stops before the weights are saved, and continues from a checkpoint before."""

    def stop(*_):
        raise InputError("stopped")

    with monkeypatch.context() as patched:
        patched.setattr(run.model_folders, "save_weights", stop)
        with pytest.raises(InputError, match="stopped"):
            pretrain_main(arguments)
    without_last_checkpoint(folder)
    pretrain_main(arguments)


def assert_same_weights(mine: pathlib.Path, theirs: pathlib.Path, tolerance: float = 0) -> None:
    """Compares the weights of two model folders, to the bit without a tolerance."""
    found, expected = weights_of(mine), weights_of(theirs)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance, err_msg=name)
