"""Answers texts with a fine-tuned model: reads rows of files, runs the model, writes answers."""

import contextlib
import dataclasses
import json
import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.utils.windowed_value import WindowedValue

from beambert import folders, io
from beambert.compression import decompressed, plain_name
from beambert.console import ProgressTally, counted, describe_bytes, json_line, size
from beambert.errors import InputError
from beambert.io import absolute, local_copy
from beambert.model_files import NOT_TO_USE, model_sha256
from beambert.pipelines import input_files
from beambert.pipelines.corpus.encodings import DEFAULT_ENCODING, parse_encodings
from beambert.pipelines.input_files import InputFile, match_inputs
from beambert.pipelines.running import (
    SHUFFLING_RUNNERS,
    add_counts,
    check_reachable,
    check_reachable_from,
    on_this_machine,
    run_job,
)
from beambert.pipelines.task_jobs import FILE, LINE, PredictionJob
from beambert.pipelines.tasks import tables
from beambert.pipelines.tasks.declarations import kind_of
from beambert.pipelines.tasks.find_model import find_model, find_model_anywhere
from beambert.pipelines.tasks.saved_models import Model, load, send_model, worker_folder
from beambert.pipelines.tasks.tables import BadRow, TableRow
from beambert.pipelines.tasks.tagging import WORDS_ENDINGS, TaggedExample, sentences_of
from beambert.pipelines.tasks.task import SPAN, TAGGING, Example, words_in
from beambert.saved_models import call_on_texts

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

# Greatest number of rows that a model answers at once.
BATCH_SIZE = 64
# The line in the place of a whole file.
WHOLE_FILE = 0
# Name of a file whose rows have columns of their own, as those of a pipeline do.
_OWN_COLUMNS = pathlib.PurePath("rows.jsonl")
PART, REJECTS = "part", "rejects"
# Answers to texts of which the model has not read the end.
CUT = "cut"
# Rejects that are whole files, or the rest of a file that cannot be read to its end.
FILES = "files"
INFO_FILE = "info.json"
# The counts of info.json.
COUNTS = ("answers", "rejects", FILES, CUT)


@dataclasses.dataclass(frozen=True)
class InputRow:
    """A row to answer.

    Attributes:
      place: fields that identify the row in the answer: the file, the line, and for a table the row
        and its other columns; or the texts themselves.
      example: the example for the model.
    """

    place: Mapping[str, Any]
    example: Example


@dataclasses.dataclass(frozen=True)
class RowReading:
    """How the fields of a row become an example.

    Attributes:
      kind: kind of the model's task.
      text_columns: column of the text or, for pairs, the columns of both texts.
      choice_columns: columns of the endings of a choice.
      unit: what a text of a plain text file is, see `PredictionJob`.
      encoding: value of --encoding, see `corpus.encodings.parse_encodings`.
    """

    kind: str
    text_columns: Sequence[str]
    choice_columns: Sequence[str]
    unit: str
    encoding: str = DEFAULT_ENCODING

    def example(self, row: TableRow) -> Example:
        """Returns the example of a row.

        Raises:
          BadRow: a text is missing or empty.
          InputError: the file lacks a column.
        """
        texts, choices = (
            [row.filled(name) for name in columns]
            for columns in (self.text_columns, self.choice_columns)
        )
        return kind_of(self.kind).unlabelled(texts, choices)


def reading_of(job: PredictionJob, model: Model) -> RowReading:
    """Returns how rows become examples for a model.

    Raises:
      InputError: the job names one text column and the model takes two, or the reverse; or it
        takes whole files as sentences; or the encoding is not known.
    """
    training = model.training
    if job.unit == FILE and training["kind"] == TAGGING:
        raise InputError(
            f"--unit={job.unit}: a tagging model takes sentences; put each on a line of its own "
            "and leave the flag out"
        )
    kind = kind_of(training["kind"])
    columns = list(job.text_columns or kind.text_columns_of(training))
    if len(columns) != 1 + training["is_pair"]:
        raise InputError(
            f"--text_columns={','.join(columns)}: --model={job.model} takes "
            f"{'two texts' if training['is_pair'] else 'one text'}; name as many"
        )
    parse_encodings(job.encoding)  # It fails before any file is read.
    return RowReading(
        training["kind"], columns, kind.choice_columns_of(training), job.unit, job.encoding
    )


def read_rows(
    file: input_files.InputFile, reading: RowReading, progress: ProgressTally
) -> Iterator[InputRow | dict[str, Any]]:
    """Yields the rows of a file, or for a row that cannot be read its place and the reason.

    Line 0 stands for a whole file, or for the rest of one that cannot be read.

    Args:
      file: a .csv, .tsv or .jsonl file with named columns, or for a tagging a .conll or .conllu
        file with the words of sentences in a column; any other has a text on each line, or is one
        text.
      reading: how the fields become examples.
      progress: tally of the rows and bytes that were read.
    """
    path, used = _plain_path(file.path), {*reading.text_columns, *reading.choice_columns}
    try:
        text, rows = _rows(path, file, reading)
        lines, told = text.count("\n") + 1, 0
        for place, fields in rows:
            line = place["line"]
            done = file.bytes * min(line or lines, lines) // lines
            progress.add(rows=1, bytes=done - told)
            told = done
            place = {"file": file.path} | place
            try:
                if isinstance(fields, BadRow):
                    raise fields
                if "row" in place:  # Fields that are no texts, such as an id.
                    place["columns"] = {n: field for n, field in fields.items() if n not in used}
                yield InputRow(place, reading.example(fields))
            except BadRow as error:
                yield place | {"reason": str(error)}
        progress.add(bytes=file.bytes - told)
    except InputError as error:
        yield {"file": file.path, "line": WHOLE_FILE, "reason": str(error)}


def row_of(text: str | Mapping[str, str], reading: RowReading) -> InputRow | dict[str, Any]:
    """Returns the row of a text or of named fields, or the fields with the reason against them."""
    fields = {reading.text_columns[0]: text} if isinstance(text, str) else dict(text)
    try:
        return InputRow(fields, reading.example(TableRow(_OWN_COLUMNS, WHOLE_FILE, fields)))
    except BadRow as error:
        return fields | {"reason": f"{error.reason}; {error.remedy}"}


def _rows(
    path: pathlib.PurePosixPath, file: input_files.InputFile, reading: RowReading
) -> tuple[str, Iterator[tuple[dict[str, Any], TableRow | BadRow]]]:
    """Returns the whole text of a file, and its rows with their places in it.

    A place has the `line` and, in a table, the `row`, both counted from 1. The header is no row. A
    text that is a whole file has line 0.
    """
    content = decompressed(file.path, b"".join(io.read_chunks(file.path)))
    text = tables.decode(path, content, reading.encoding)
    if is_table(file.path):
        rows = enumerate(tables.rows_of(path, text), start=1)
        return text, (({"line": line, "row": row}, fields) for row, (line, fields) in rows)
    column = reading.text_columns[0]

    def row(line: int, found: str | TaggedExample | BadRow) -> TableRow | BadRow:
        if isinstance(found, BadRow):
            return found
        one = found if isinstance(found, str) else " ".join(found.words)
        return TableRow(path, line, {column: one})

    if reading.kind == TAGGING and path.suffix in WORDS_ENDINGS:
        found = sentences_of(path, text, None)
    else:
        found = [(WHOLE_FILE, text)] if reading.unit == FILE else tables.lines(text)
    return text, (({"line": line}, row(line, each)) for line, each in found)


def is_table(path: str) -> bool:
    """Whether a file is a table with named columns, by the ending of its name."""
    return _plain_path(path).suffix in tables.ENDINGS


def _plain_path(path: str) -> pathlib.PurePosixPath:
    return pathlib.PurePosixPath(plain_name(path))


def is_cut(model: Model, example: Example) -> bool:
    """Whether the texts of an example have more words than the model reads tokens.

    Words are of one token at least, so some texts that lose their ends are not found.
    """
    training = model.training
    if training["kind"] == SPAN or "max_seq_length" not in training:
        return False  # Windows read a context of any length.
    return words_in(example) > training["max_seq_length"] * training.get("windows", 1)


class SavedModelHandler(ModelHandler):
    """Answers batches of rows with a SavedModel; each worker process loads it once."""

    def __init__(self, model: Model, kind: str):
        """Takes the model and its kind."""
        self._model = model
        self._kind = kind

    def load_model(self) -> Any:
        """Loads the SavedModel."""
        return load(self._model)

    def run_inference(
        self, batch: Sequence[InputRow], model: Any, inference_args: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Returns the place and the answer of each row."""
        outputs = call_on_texts(model, [row.example.texts() for row in batch])
        answer_of = kind_of(self._kind).answer
        return [
            dict(row.place)
            | answer_of(self._model.labels, row.example, outputs, i)
            | ({CUT: True} if is_cut(self._model, row.example) else {})
            for i, row in enumerate(batch)
        ]

    def batch_elements_kwargs(self) -> dict[str, int]:
        """Returns the greatest size of a batch."""
        return {"max_batch_size": BATCH_SIZE}


@beam.typehints.with_input_types(str | Mapping[str, str])
@beam.typehints.with_output_types(dict[str, Any])
class Predict(beam.PTransform):
    """Answers texts with a fine-tuned model.

    It takes texts or, for models of several texts, mappings from column names to texts. At the
    beginning of a pipeline it reads the files of the job instead. It yields a dictionary for each
    text: the text (or its file and line) with the answer, or with the `reason` why there is none.
    The model's folder may be on gs://. Workers must have access to it.

    Example:
      >>> import apache_beam as beam
      >>> from beambert import Predict, PredictionJob
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     answers = (
      ...         pipeline
      ...         | beam.Create(["so good"])
      ...         | Predict(PredictionJob("model"))
      ...         | beam.Map(lambda answer: print(answer["text"], "->", answer["label"]))
      ...     )
      so good -> positive
    """

    def __init__(
        self,
        job: PredictionJob,
        progress_folder: str | None = None,
        model: Model | None = None,
    ):
        """Checks the model and lists the files to read.

        Args:
          job: the texts to answer and the model.
          progress_folder: folder of a `ProgressDisplay`, if there is one.
          model: result of `find_model_anywhere` for the job, if it was called before.

        Raises:
          InputError: the model cannot be used, or a pattern matches no file.
        """
        super().__init__()
        self._model = model or find_model_anywhere(absolute(job.model), job.trust_model)
        self._inputs = match_inputs(job.input)
        self._reading = reading_of(job, self._model)
        self._progress_folder = progress_folder

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns of the model's texts; a text that is no mapping belongs to the first."""
        return tuple(self._reading.text_columns)

    # Beam takes no union as a hint, but it takes the beginning of a pipeline for any collection.
    def expand(
        self, texts: beam.PCollection[str | Mapping[str, str]]
    ) -> beam.PCollection[dict[str, Any]]:
        """Adds the steps.

        Raises:
          InputError: workers don't see the model or the files.
        """
        model, begins = self._model, isinstance(texts, beam.pvalue.PBegin)
        check_reachable_from(
            texts.pipeline,
            model=model.sent_to or str(model.path),
            input=[file.path for file in self._inputs] if begins else (),
        )
        if begins:
            rows = (
                texts
                | "Files" >> beam.Create(self._inputs)
                | "Spread" >> beam.Reshuffle()
                | "Read" >> beam.ParDo(ReadRows(self._reading, self._progress_folder))
            )
            # Reading a file is one worker's work, answering its rows is not. Other runners would
            # hold all rows in memory.
            if type(texts.pipeline.runner).__name__ in SHUFFLING_RUNNERS:
                rows |= "SpreadRows" >> beam.Reshuffle()
        else:
            rows = texts | "Read" >> beam.Map(row_of, self._reading)
        answers = (
            rows
            | "Rows" >> beam.Filter(lambda row: isinstance(row, InputRow))
            | "Answer" >> RunInference(SavedModelHandler(self._model, self._reading.kind))
        )
        rejects = rows | "Rejects" >> beam.Filter(lambda row: not isinstance(row, InputRow))
        return (answers, rejects) | beam.Flatten()


class ReadRows(beam.DoFn):
    """Reads the rows of each file; yields a dictionary for a row that cannot be read."""

    def __init__(self, reading: RowReading, progress_folder: str | None):
        """Takes how to read, and the folder of a `ProgressDisplay`, if there is one."""
        self._reading = reading
        self._progress_folder = progress_folder

    def setup(self) -> None:
        """Opens the worker's tally."""
        self._progress = ProgressTally(self._progress_folder)

    def process(self, file: InputFile) -> Iterator[InputRow | dict[str, Any]]:
        """Reads one file."""
        yield from read_rows(file, self._reading, self._progress)

    def finish_bundle(self) -> None:
        """Reports the last rows."""
        self._progress.flush()


@on_this_machine
def predict(job: PredictionJob, options: "PipelineOptions | None" = None) -> dict[str, int]:
    """Writes the answers of a model; returns the numbers of `answers`, `rejects` and `files`.

    The `files` are those of the rejects that are whole files, or the rest of one.

    Raises:
      InputError: the model, a file or the output folder cannot be used.
    """
    with local_copy(job.model, NOT_TO_USE) as here:
        job = dataclasses.replace(job, model=here)
        model = find_model(job.model, trusts=job.trust_model)
        columns = reading_of(job, model).text_columns
        inputs = input_files.match_inputs(job.input)
        identity = {
            "model_sha256": model_sha256(job.model),
            "text_columns": list(columns),
            "unit": job.unit,
            "encoding": job.encoding,
            "input": [dataclasses.asdict(file) for file in inputs],
        }
        check_reachable(options, input=job.input, output=job.output)
        output = io.absolute(job.output)
        with folders.claimed(output, identity) as folder:
            if folder.is_finished:
                print(f"{output}: already finished by the same command, nothing to do")
                counts = folder.read_json(INFO_FILE)
            else:
                counts = _answer(job, model, inputs, identity, output, options)
            return {name: counts[name] for name in COUNTS}


def _answer(
    job: PredictionJob,
    model: Model,
    inputs: Sequence[input_files.InputFile],
    identity: dict[str, Any],
    output: str,
    options: "PipelineOptions",
) -> dict[str, Any]:
    for prefix in (f"{PART}-", f"{REJECTS}-"):  # left by a run that was killed
        io.delete_prefixed(output, prefix)
    total_bytes = sum(file.bytes for file in inputs)
    print(f"{counted(len(inputs), 'file')}, {size(total_bytes)} -> {output}", flush=True)
    if job.unit == LINE and not all(is_table(file.path) for file in inputs):
        print("each line of a text file is answered; --unit=file answers each file", flush=True)
    with worker_folder(options) as sent:
        reachable = send_model(model, sent)
        run_job(
            lambda pipeline, folder: write_answers(
                pipeline | Predict(job, folder, reachable), output, identity
            ),
            options,
            describe_bytes("answering", "rows", total_bytes),
            total_bytes / 1e6,
            "MB",
        )
    remedy = "wait until nothing writes to it, then delete --output or choose another"
    input_files.check_unchanged(inputs, job.input, remedy)
    counts = io.read_object(f"{output}/{INFO_FILE}", *COUNTS, flag="--output")
    if counts[CUT]:
        print(
            f"warning: {counted(counts[CUT], 'text')} or more lost the end: "
            f"{model.training['kind']} was trained on {model.training['max_seq_length']} tokens; "
            "divide long texts, or train with a greater --max_seq_length or --max_windows"
        )
    if not counts["answers"]:
        _refuse_nothing(job, output, counts["rejects"])
    return counts


def _refuse_nothing(job: PredictionJob, output: str, rejects: int) -> None:
    """Refuses a prediction without answers, and makes its folder free for a corrected command.

    Raises:
      InputError: always, with the first reason.
    """
    reason = f"there is no text in {' '.join(job.input)}"
    if rejects:
        names = [name for name in io.list_folder(output) if name.startswith(f"{REJECTS}-")]
        lines = (io.read_bytes(f"{output}/{name}", "--output") for name in sorted(names))
        first = json.loads(next(filter(None, b"".join(lines).split(b"\n"))))
        reason = f"none of {rejects:,} rows could be answered ({first['reason']})"
    for prefix in (f"{PART}-", f"{REJECTS}-"):
        io.delete_prefixed(output, prefix)
    io.delete_quietly([f"{output}/{INFO_FILE}"])
    raise InputError(f"--input: {reason}; correct the files or the flags")


def write_answers(
    answers: beam.PCollection[dict[str, Any]], output: str, about: Mapping[str, Any]
) -> None:
    """Adds the steps that write answers and rejects to separate files, and then info.json.

    Beam's own sink of text would take the path of the output for a pattern.

    Args:
      answers: the answers.
      output: path of the folder.
      about: what info.json has besides the counts.
    """
    written = answers | "Write" >> beam.ParDo(WriteRows(output))
    _ = (
        answers.pipeline
        | "Once" >> beam.Create([output])
        | "Finish" >> beam.Map(_finish, about, beam.pvalue.AsList(written))
    )


class WriteRows(beam.DoFn):
    """Writes rows to temporary files; yields their paths by the kind of rows, and the counts."""

    def __init__(self, output: str):
        """Takes the folder."""
        self._output = output

    def start_bundle(self) -> None:
        """Begins new files."""
        self._open = contextlib.ExitStack()
        self._files: dict[str, tuple[str, BinaryIO]] = {}
        self._counts: Counter[str] = Counter()

    def process(self, row: dict[str, Any]) -> None:
        """Writes a row."""
        name = REJECTS if "reason" in row else PART
        is_file = name == REJECTS and row.get("line") == WHOLE_FILE
        self._counts[FILES if is_file else name] += 1
        self._counts[CUT] += row.pop(CUT, False)
        if name not in self._files:
            path = io.temporary_name(f"{self._output}/{name}")
            self._files[name] = path, self._open.enter_context(io.create(path))
        self._files[name][1].write(json_line(row).encode())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Completes the files."""
        self._open.close()
        paths = {name: path for name, (path, _) in self._files.items()}
        window = beam.transforms.window.GlobalWindow()
        yield WindowedValue((paths, dict(self._counts)), window.max_timestamp(), [window])


def _finish(
    output: str,
    about: Mapping[str, Any],
    bundles: Sequence[tuple[Mapping[str, str], Mapping[str, int]]],
) -> None:
    """Gives the files of all bundles their names; a worker that does it again changes nothing."""
    for name in (PART, REJECTS):
        paths = sorted(paths[name] for paths, _ in bundles if name in paths)
        for number, path in enumerate(paths):
            final = f"{output}/{name}-{number:05d}-of-{len(paths):05d}.jsonl"
            if not io.exists(final):
                io.move(path, final)
    found = add_counts(counts for _, counts in bundles)
    counts = (found[PART], found[REJECTS] + found[FILES], found[FILES], found[CUT])
    info = {**about, **dict(zip(COUNTS, counts, strict=True))}
    io.write_bytes(f"{output}/{INFO_FILE}", json.dumps(info, indent=1).encode())
