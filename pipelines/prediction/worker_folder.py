"""A temporary folder that this machine shares with workers on other machines.

`beambert evaluate` and `predict` read a model on this machine. Workers on Dataflow have no access
to it, so it is copied to --temp_location for the duration of the job. The workers write their
results there, too.
"""

import contextlib
import dataclasses
import pathlib
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from beambert.errors import InputError
from beambert.pipelines.jobs.running import check_reachable, has_local_workers
from beambert.pipelines.prediction.saved_models import Model
from beambert.pipelines.storage import claims, tensorflow_files

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


@contextlib.contextmanager
def worker_folder(options: "PipelineOptions") -> Iterator[str | None]:
    """Yields a folder for this job, deleted afterwards; None if the workers are on this machine.

    Raises:
      InputError: there is no --temp_location.
    """
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    if has_local_workers(options):
        yield None
        return
    root = options.view_as(GoogleCloudOptions).temp_location
    if not root:
        raise InputError(
            "--temp_location: must be given for workers on other machines; name a gs:// folder, or "
            "one that all workers share"
        )
    check_reachable(options, temp_location=root)
    folder = f"{claims.absolute(root)}/beambert-{uuid.uuid4().hex[:8]}"
    try:
        yield folder
    finally:
        with contextlib.suppress(InputError):  # it must not hide what went wrong before
            tensorflow_files.delete(folder)


def send_model(model: Model, folder: str | None) -> Model:
    """Returns the model with a copy in the folder that workers can load."""
    if folder is None:
        return model
    tensorflow_files.copy(str(model.path), f"{folder}/model")
    return dataclasses.replace(model, sent_to=f"{folder}/model")


def fetch(folder: str | None, name: str, target: pathlib.Path) -> None:
    """Copies the folder `name` that workers on other machines made to the folder `target`."""
    if folder is not None:
        tensorflow_files.copy(f"{folder}/{name}", str(target / name))
