"""The Beam transform that divides files into parts."""

import apache_beam as beam

from beambert.pipelines.corpus.parts import FilePart
from beambert.pipelines.corpus.reading import ReadOptions, split_file
from beambert.pipelines.jobs.input_files import InputFile

# Tags of what tokenizing gives besides its main output.
COUNTS, REJECTS = "counts", "rejects"


class SplitFiles(beam.DoFn):
    """InputFile -> FileParts."""

    def __init__(self, options: ReadOptions):
        """Takes how files are read."""
        self._options = options

    def process(self, file: InputFile) -> list[FilePart]:
        """Divides one file."""
        return split_file(file, self._options)
