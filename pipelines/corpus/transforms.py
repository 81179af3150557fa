"""The Beam transforms that read a corpus."""

from collections.abc import Iterator, Sequence

import apache_beam as beam

from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.parts import FilePart
from beambert.pipelines.corpus.reading import ReadOptions, read_part, split_file
from beambert.pipelines.jobs.input_files import InputFile
from beambert.pipelines.shared.progress import ProgressTally

# Tags of what the steps that read documents give besides their main output.
COUNTS, REJECTS = "counts", "rejects"

# What those steps take: a part of a file, or the text of one document.
Source = FilePart | str


class SplitFiles(beam.DoFn):
    """InputFile -> FileParts."""

    def __init__(self, options: ReadOptions):
        """Takes how files are read."""
        self._options = options

    def process(self, file: InputFile) -> list[FilePart]:
        """Divides one file."""
        return split_file(file, self._options)


def add_sources(
    given: beam.PCollection[str] | beam.pvalue.PBegin,
    inputs: Sequence[InputFile],
    options: ReadOptions,
) -> beam.PCollection[Source]:
    """Returns the texts of a pipeline, or where it begins, the parts of files spread over workers.

    Args:
      given: the texts of documents, or the beginning of a pipeline.
      inputs: the files to read at the beginning of a pipeline.
      options: how files are read.
    """
    if not isinstance(given, beam.pvalue.PBegin):
        return given
    return (
        given
        | "Files" >> beam.Create(inputs)
        | "Split" >> beam.ParDo(SplitFiles(options))
        | "Spread" >> beam.Reshuffle()
    )


def read_source(
    source: Source, options: ReadOptions, progress: ProgressTally
) -> Iterator[Document | Skip | Reject]:
    """Streams the documents of a part of a file, or the one whose text is given."""
    if isinstance(source, str):
        yield Document(source)
    else:
        yield from read_part(source, options, progress)
