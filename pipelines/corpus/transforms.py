"""The Beam transforms that read a corpus."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindows

from beambert.config import check_settings
from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.pipelines.corpus.base import FilePart
from beambert.pipelines.corpus.cleaning import AUTO, SENTENCES, clean
from beambert.pipelines.corpus.documents import Document, Found, Reject, count_read, language_of
from beambert.pipelines.corpus.reading import ReadOptions, read_part, reject_row, split_file
from beambert.pipelines.corpus.sources import InputSettings
from beambert.pipelines.input_files import InputList, match_inputs
from beambert.pipelines.running import check_beginning, check_reachable_from

# Tags of the side outputs of the steps that read documents.
COUNTS, REJECTS = "counts", "rejects"


# The rows are named tuples with Beam schemas and deterministic coders.


class DocumentRow(NamedTuple):
    """The text of a document.

    Attributes:
      text: paragraphs (or, if `is_split`, sentences) separated by line feeds.
      path: path of the document's file; "" if there is none.
      is_split: whether each line is one sentence already.
      language: code of the document's language, or a tag of BCP 47; "" for that of the job.
    """

    text: str
    path: str = ""
    is_split: bool = False
    language: str = ""


class RejectRow(NamedTuple):
    """A part of a file that cannot be read as a document.

    Attributes:
      path: path of the file.
      line: number of the part's first line in the file, from 1.
      reason: a word or two.
      detail: message that helps a person to fix it.
    """

    path: str
    line: int
    reason: str
    detail: str


for _kind in (DocumentRow, RejectRow):
    beam.coders.registry.register_row(_kind)

# Type of the input of the steps that read: a part of a file, or one document of a pipeline.
Part = FilePart | DocumentRow | str


def output_of(part: Part, reject: Reject) -> beam.pvalue.TaggedOutput:
    """Returns the output for `REJECTS` of a part's reject: a list of rows."""
    return beam.pvalue.TaggedOutput(REJECTS, [reject_row(part, reject)])


def add_parts(
    given: beam.PCollection[DocumentRow | str] | beam.pvalue.PBegin,
    inputs: InputList,
    options: ReadOptions,
) -> beam.PCollection[Part]:
    """Adds the inputs of reading: the given documents, or else the parts of the input files.

    Args:
      given: documents, or the beginning of a pipeline.
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
    return files | "Split" >> beam.FlatMap(split_file, options) | "Spread" >> beam.Reshuffle()


def read_documents(part: Part, options: ReadOptions, progress: ProgressTally) -> Iterator[Found]:
    """Yields the documents of a part of a file, or the one document that is given.

    Raises:
      InputError: the document has an unknown language, or contradicts `options.layout`.
    """
    if isinstance(part, FilePart):
        yield from read_part(part, options, progress)
    elif isinstance(part, str):
        yield clean(Document(part), options.layout)
    else:  # Behind a coder the class of a row is another one with the same columns.
        language = language_of(part.language)
        if part.language and not language:
            raise InputError(
                f"--language_column: a document has the unknown language {part.language!r}; name "
                "it by its code, such as en, zh-Hant or tha"
            )
        if part.is_split and options.layout not in (AUTO, SENTENCES):
            raise InputError(
                f"--layout={options.layout}: a document is split into sentences (is_split); leave "
                "one of them out"
            )
        document = Document(part.text, part.is_split, language=language)
        # The lines of a row are paragraphs, unless the flag says otherwise.
        yield document if options.layout == AUTO else clean(document, options.layout)


class ReadDocuments(beam.PTransform):
    """Begins a pipeline: reads files in every format of `beambert data`.

    The result has two outputs: `documents`, rows of `DocumentRow`, and `rejects`, a `RejectRow` for
    each document that cannot be read. The list of the files becomes a part of the pipeline. The
    counters of the namespace beambert have the numbers of documents and rejects.

    Example:
      >>> import apache_beam as beam
      >>> from beambert import ReadDocuments
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     read = pipeline | ReadDocuments("texts.jsonl")
      ...     texts = read.documents | beam.Map(lambda row: print(row.text))
      ...     faults = read.rejects | beam.Map(lambda row: print(row.line, row.reason))
      The river begins in the north.
      2 no_text
    """

    def __init__(
        self,
        input: str | Sequence[str],
        *,
        format: str = "auto",
        text_column: str = "text",
        language_column: str = "",
        encoding: str = "utf-8",
        layout: str = AUTO,
    ):
        """Lists the files.

        Args:
          input: pattern of the files, or several.
          format, text_column, language_column, encoding, layout: see `PretrainingDataJob`.

        Raises:
          InputError: a pattern matches nothing, or a value is not known.
        """
        super().__init__()
        settings = InputSettings(
            input=input, format=format, text_column=text_column, layout=layout, encoding=encoding
        )
        check_settings(settings)
        settings.check_input()
        self._patterns = settings.input
        self._files = InputList(tuple(match_inputs(self._patterns)))
        self._options = settings.read_options(language_column=language_column)

    # Beam takes no hint for several outputs; each has its own.
    def expand(self, begin: beam.pvalue.PBegin):
        """Adds the steps and returns a `DoOutputsTuple`.

        Raises:
          InputError: it is applied to the elements of another step, or workers don't see a file.
        """
        check_beginning(begin, "ReadDocuments")
        check_reachable_from(begin.pipeline, input=self._patterns)
        read = beam.FlatMap(_read_rows, self._options)
        rows = read.with_output_types(DocumentRow, rejects=RejectRow)
        parts = add_parts(begin, self._files, self._options)
        return parts | "Read" >> rows.with_outputs(REJECTS, main="documents")


def _read_rows(
    part: FilePart, options: ReadOptions
) -> Iterator[DocumentRow | beam.pvalue.TaggedOutput[Literal["rejects"], RejectRow]]:
    path, counts = part.file.path, Counter()
    for document in read_part(part, options, ProgressTally(None)):
        count_read(document, counts)
        if isinstance(document, Reject):
            row = json.loads(reject_row(part, document))
            yield beam.pvalue.TaggedOutput(REJECTS, RejectRow(row.pop("file"), **row))
        elif isinstance(document, Document):
            yield DocumentRow(document.text, path, document.is_split, document.language)
    counts["documents"] = counts.pop("read", 0)
    for name, number in counts.items():
        if number:
            Metrics.counter("beambert", name).inc(number)
