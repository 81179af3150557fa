"""What workers on other machines need of local files, and what they make, in a folder of both.

`beambert evaluate` and `predict` read a model that is on this machine. Dataflow's workers don't see
it, so it goes to --temp_location for as long as the job takes.
"""

import contextlib
import dataclasses
import pathlib
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from beambert.pipelines.jobs.running import is_local
from beambert.pipelines.prediction.saved_models import Model
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import tensorflow_files

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


@contextlib.contextmanager
def worker_folder(options: "PipelineOptions") -> Iterator[str | None]:
    """Yields a folder for this job alone, deleted afterwards; None where workers are here.

    Raises:
      InputError: there is no --temp_location.
    """
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    if is_local(options):
        yield None
        return
    root = options.view_as(GoogleCloudOptions).temp_location
    if not root:
        raise InputError("--temp_location: workers on other machines need one; name a gs:// folder")
    folder = f"{root.rstrip('/')}/beambert-{uuid.uuid4().hex[:8]}"
    try:
        yield folder
    finally:
        with contextlib.suppress(InputError):  # it must not hide what went wrong before
            tensorflow_files.delete(folder)


def send_model(model: Model, folder: str | None) -> Model:
    """Returns a model that workers can load."""
    if folder is None:
        return model
    tensorflow_files.copy(str(model.path), f"{folder}/model")
    return dataclasses.replace(model, sent_to=f"{folder}/model")


def fetch(folder: str | None, name: str, target: pathlib.Path) -> None:
    """Copies what workers made, if they are on other machines, into the folder of that name."""
    if folder is not None:
        tensorflow_files.copy(f"{folder}/{name}", str(target / name))
