"""The held-out records of a pre-training: those of all text, or those of each of its sources."""

import os
from collections.abc import Mapping, Sequence

from beambert.pipelines.records.contract import EVAL_FOLDER, INFO_FILE
from beambert.pipelines.storage import tensorflow_files
from beambert.trainer.pretraining.eval_data import parse_eval_data
from beambert.trainer.pretraining.records import Records, check_same, open_records


def open_held_out(
    records: Records, given: str | Sequence[str] | None, objective: str
) -> Mapping[str, Records]:
    """Returns name of the source -> held-out records; "" is the name of those of all text.

    Args:
      records: training records.
      given: values of --eval_data; None takes what `beambert data` has left in the folder eval of
        the training records, if that exists.
      objective: objective of the training.

    Raises:
      InputError: records cannot be used.
    """
    given = [given] if isinstance(given, str) else given
    folders = _beside(records.folder) if given is None else parse_eval_data(given)
    found = {}
    for name, folder in folders.items():
        found[name] = open_records(folder, "--eval_data", objective)
        check_same(records, found[name])
    return found


def _beside(folder: str) -> dict[str, str]:
    """Returns name -> folder of the held-out records in a folder of training records."""
    held_out = f"{folder}/{EVAL_FOLDER}"
    if not tensorflow_files.exists(held_out):
        return {}
    if not tensorflow_files.exists(f"{held_out}/{INFO_FILE}"):
        infos = tensorflow_files.match(f"{held_out}/*/{INFO_FILE}")
        if of_sources := sorted(os.path.dirname(path) for path in infos):
            return {os.path.basename(path): path for path in of_sources}
    return {"": held_out}
