"""`beambert evaluate` reads and writes local folders only; this brings those on gs:// there."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence

from beambert.pipelines.evaluate import BLESSED, NOT_BLESSED
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.storage.tensorflow_files import copy_folder

with loading():
    import tensorflow as tf

_INPUTS = ("--model=", "--data_dir=", "--baseline=")
_OUTPUT = "--output="
# Of a model folder: large, and no part of the model.
_LEFT_OUT = ("checkpoints", "tensorboard")


@contextlib.contextmanager
def local_folders(arguments: Sequence[str]) -> Iterator[list[str]]:
    """Copies what a command reads to this machine, and what it wrote back; the markers last.

    Args:
      arguments: of the command.

    Yields:
      the arguments with local folders in them.

    Raises:
      InputError: something can't be copied.
    """
    with tempfile.TemporaryDirectory(prefix="beambert-evaluate-") as root:
        changed, uploads = [], []
        for argument in arguments:
            name, _, path = argument.partition("=")
            if "://" in path and f"{name}=" in (*_INPUTS, _OUTPUT):
                local = os.path.join(root, name.lstrip("-"))
                if f"{name}=" == _OUTPUT:
                    uploads.append((local, path))
                else:
                    copy_folder(path, local, _LEFT_OUT)
                argument = f"{name}={local}"
            changed.append(argument)
        yield changed
        for local, path in uploads:
            markers = (BLESSED, NOT_BLESSED)
            copy_folder(local, path, markers)
            for marker in markers:
                if os.path.exists(os.path.join(local, marker)):
                    tf.io.gfile.copy(os.path.join(local, marker), f"{path}/{marker}", True)
