"""The Beam transforms that read a corpus."""

from collections.abc import Iterator

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from beambert.console import ProgressTally
from beambert.pipelines.corpus.base import FilePart
from beambert.pipelines.corpus.documents import Document, Found, Reject
from beambert.pipelines.corpus.reading import ReadOptions, read_part, reject_row, split_file
from beambert.pipelines.input_files import InputFile, InputList

# Tags of the side outputs of the steps that read documents.
COUNTS, REJECTS = "counts", "rejects"
# Number of rejects that a step passes on at once. One by one they cost more than their reading.
REJECTS_AT_A_TIME = 1000

# Type of the input of those steps: a part of a file, or the text of one document.
Part = FilePart | str


class RejectLists:
    """Makes the outputs for `REJECTS` of a part's rejects."""

    def __init__(self, part: Part):
        """Takes the part."""
        self._part = part
        self._rows: list[str] = []

    def add(self, reject: Reject) -> Iterator[beam.pvalue.TaggedOutput]:
        """Adds a reject, and yields an output when there are enough."""
        self._rows.append(reject_row(self._part, reject))
        if len(self._rows) == REJECTS_AT_A_TIME:
            yield from self.rest()

    def rest(self) -> Iterator[beam.pvalue.TaggedOutput]:
        """Yields an output of those that are left, if there are any."""
        if self._rows:
            yield beam.pvalue.TaggedOutput(REJECTS, self._rows)
            self._rows = []


class SplitFiles(beam.DoFn):
    """Divides each InputFile into FileParts."""

    def __init__(self, options: ReadOptions):
        """Takes the options for reading files."""
        self._options = options

    def process(self, file: InputFile) -> list[FilePart]:
        """Returns the parts of one file."""
        return split_file(file, self._options)


def add_parts(
    given: beam.PCollection[str] | beam.pvalue.PBegin,
    inputs: InputList,
    options: ReadOptions,
) -> beam.PCollection[Part]:
    """Adds the inputs of reading: the given documents, or else the parts of the input files.

    Args:
      given: the documents' text, or the beginning of a pipeline.
      inputs: files to read if `given` is the beginning of a pipeline.
      options: options for reading files.
    """
    if not isinstance(given, beam.pvalue.PBegin):
        # A corpus is of all documents, whatever window they are in.
        return given | "Window" >> beam.WindowInto(GlobalWindows())
    if inputs.path:
        files = (
            given
            | "Files" >> beam.Create([inputs])
            | "ReadList" >> beam.FlatMap(InputList.files)
            | "SpreadFiles" >> beam.Reshuffle()
        )
    else:
        files = given | "Files" >> beam.Create(inputs.listed)
    return files | "Split" >> beam.ParDo(SplitFiles(options)) | "Spread" >> beam.Reshuffle()


def read_documents(part: Part, options: ReadOptions, progress: ProgressTally) -> Iterator[Found]:
    """Yields the documents of a part of a file, or the one document that is given as text."""
    if isinstance(part, str):
        yield Document(part)
    else:
        yield from read_part(part, options, progress)
