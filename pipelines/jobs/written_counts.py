"""Counts that the workers of a job write for the command, where no metrics of Beam's would do.

Beam promises committed metrics on some runners only, and others count elements that were tried
twice.
"""

import json

import apache_beam as beam

from beambert.pipelines.files import beam_files
from beambert.pipelines.storage import claims

_COUNTS_FILE = f"{claims.TEMPORARY_PREFIX}counts"


class WriteCounts(beam.PTransform):
    """Writes a dict of counts, the only element, to the output folder of the job."""

    def __init__(self, output: str):
        """Takes the path of the folder."""
        super().__init__()
        self._path = f"{output}/{_COUNTS_FILE}"

    def expand(self, counts: beam.PCollection[dict[str, int]]) -> beam.PCollection[None]:
        """Adds the step."""
        return counts | beam.Map(
            lambda counts, path: beam_files.write_bytes(path, json.dumps(counts).encode()),
            self._path,
        ).with_output_types(None)


def take_counts(output: str) -> dict[str, int]:
    """Returns the counts that `WriteCounts` wrote to a folder, and deletes their file.

    Raises:
      InputError: the file cannot be read.
    """
    path = f"{output}/{_COUNTS_FILE}"
    counts = json.loads(beam_files.read_bytes(path, "--output"))
    beam_files.delete_quietly([path])
    return counts
