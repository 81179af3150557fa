"""Outputs of the transforms of a pipeline, in the pipeline and on a worker."""

import os
import weakref

import apache_beam as beam

from beambert.errors import InputError

_OUTPUTS: weakref.WeakKeyDictionary[beam.Pipeline, set[str]] = weakref.WeakKeyDictionary()


def take_output(pipeline: beam.Pipeline, output: str) -> None:
    """Gives an output to one transform of a pipeline.

    The claim of a folder doesn't keep a second one out: it would be the same job given again.

    Args:
      pipeline: the pipeline.
      output: path of a file or folder to make.

    Raises:
      InputError: another transform of the pipeline makes it.
    """
    taken = _OUTPUTS.setdefault(pipeline, set())
    if output.rstrip("/") in taken:
        raise InputError(
            f"--output={output}: another transform of the pipeline writes there; choose another "
            "folder, or flatten the collections before one transform"
        )
    taken.add(output.rstrip("/"))


def check_visible(folder: str) -> None:
    """Checks on a worker that it sees the output folder that the command has made.

    Raises:
      InputError: the folder is not there.
    """
    if "://" not in folder and not os.path.isdir(folder):
        raise InputError(
            f"--output={folder}: the workers don't see this folder; name one that all of them share"
        )
