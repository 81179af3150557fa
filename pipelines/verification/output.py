"""The folder that a verification writes its report to."""

import os
from collections.abc import Sequence

from beambert.errors import InputError
from beambert.pipelines.files.beam_files import list_folder
from beambert.pipelines.storage.claims import is_aside
from beambert.pipelines.storage.given_paths import has_wildcard
from beambert.pipelines.verification.job import JSON_FILE, OUTPUT_ENDING, PAGE_FILE


def choose_output(inputs: Sequence[str], output: str | None) -> str:
    """Returns the folder for the report: beside a folder of records, for a file the working folder.

    Raises:
      InputError: no folder follows from the inputs, or the folder holds something else.
    """
    if output is None:
        if len(inputs) > 1 or has_wildcard(inputs[0]):
            raise InputError("--output: missing, with several inputs or a pattern; name a folder")
        if os.path.isfile(inputs[0]):
            # Beside a file it would stand in the folder of the records.
            return choose_output(inputs, os.path.basename(inputs[0]) + OUTPUT_ENDING)
        # A folder given as "." has a name too.
        is_nameless = os.path.basename(inputs[0].rstrip("/")) in ("", ".", "..")
        output = (os.path.abspath(inputs[0]) if is_nameless else inputs[0]).rstrip("/")
        output += OUTPUT_ENDING
    foreign = [
        name
        for name in list_folder(output)
        if name not in (JSON_FILE, PAGE_FILE) and not is_aside(name)
    ]
    if foreign:
        raise InputError(
            f"--output={output}: already holds something else ({foreign[0]} …); name another folder"
        )
    return output
