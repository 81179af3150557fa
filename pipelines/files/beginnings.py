"""Transforms that begin a pipeline, as they read files of their own."""

from typing import Any

import apache_beam as beam

from beambert.errors import InputError


def check_beginning(given: Any, name: str) -> None:
    """Refuses the elements of another step where a transform begins a pipeline.

    Args:
      given: what the transform is applied to.
      name: name of the transform.

    Raises:
      InputError: it is a collection.
    """
    if not isinstance(given, beam.pvalue.PBegin):
        raise InputError(
            f"{name}: reads files that exist before the pipeline runs, and takes no elements; "
            "apply it to the beginning of a pipeline"
        )
