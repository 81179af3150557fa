"""Turns rows of files into examples, and batches of examples into a fine-tuned model's answers."""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apache_beam.ml.inference.base import ModelHandler

from beambert.errors import InputError
from beambert.pipelines.corpus.encodings import DEFAULT_ENCODING, parse_encodings
from beambert.pipelines.files import input_files
from beambert.pipelines.files.compression import CorruptFileError, decompress, plain_name
from beambert.pipelines.prediction import saved_models
from beambert.pipelines.prediction.answers import ANSWERS
from beambert.pipelines.prediction.job import FILE, PredictionJob
from beambert.pipelines.prediction.saved_models import load
from beambert.pipelines.storage.tensorflow_models import call_on_texts
from beambert.pipelines.tasks import tables
from beambert.pipelines.tasks.examples import Example, TaggedExample
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.task import TAGGING
from beambert.pipelines.tasks.word_tags import WORDS_ENDINGS, sentences_of
from beambert.progress import ProgressTally

# Greatest number of rows that a model answers at once.
BATCH_SIZE = 64
# The line in the place of a whole file.
WHOLE_FILE = 0


@dataclasses.dataclass(frozen=True)
class InputRow:
    """A row to answer.

    Attributes:
      place: fields that identify the row in the answer: the file, the line, and for a table the row
        and its other columns; or the texts themselves.
      example: the example for the model.
    """

    place: Mapping[str, Any]
    example: Example | Question


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

    def other_columns(self, fields: Mapping[str, str]) -> dict[str, str]:
        """Returns the fields of a row that are no texts, such as its id."""
        used = {*self.text_columns, *self.choice_columns}
        return {name: field for name, field in fields.items() if name not in used}


def reading_of(job: PredictionJob, model: saved_models.Model) -> RowReading:
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
    answers = ANSWERS[training["kind"]]
    columns = list(job.text_columns or answers.text_columns(training))
    if len(columns) != 1 + training["is_pair"]:
        raise InputError(
            f"--text_columns={','.join(columns)}: --model={job.model} takes "
            f"{'two texts' if training['is_pair'] else 'one text'}; name as many"
        )
    parse_encodings(job.encoding)  # It fails before any file is read.
    return RowReading(
        training["kind"], columns, answers.choice_columns(training), job.unit, job.encoding
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
    try:
        text, rows = _rows(file, reading)
        lines, told = text.count("\n") + 1, 0
        for place, fields in rows:
            line = place.get("line")
            done = file.bytes * min(line or lines, lines) // lines
            progress.add(rows=1, bytes=done - told)
            told = done
            where = f"{file.path}, line {line}" if line else file.path
            if "row" in place and not isinstance(fields, tables.BadRow):
                place["columns"] = reading.other_columns(fields)
            place = {"file": file.path} | place
            try:
                if "row" not in place:
                    _check_text(where, fields)
                yield InputRow(place, _example(where, fields, reading))
            except InputError as error:
                yield place | {"reason": str(error)}
        progress.add(bytes=file.bytes - told)
    except InputError as error:
        yield {"file": file.path, "line": WHOLE_FILE, "reason": str(error)}


def row_of(text: str | Mapping[str, str], reading: RowReading) -> InputRow | dict[str, Any]:
    """Returns the row of a text or of named fields, or the fields with the reason against them."""
    fields = {reading.text_columns[0]: text} if isinstance(text, str) else dict(text)
    try:
        return InputRow(fields, _example("a row", fields, reading))
    except InputError as error:
        return fields | {"reason": str(error)}


def _rows(
    file: input_files.InputFile, reading: RowReading
) -> tuple[str, Iterator[tuple[dict[str, Any], dict[str, str] | tables.BadRow]]]:
    """Returns the whole text of a file, and its rows with their places in it.

    A place has the `line` and, in a table, the `row`, both counted from 1. The header is no row. A
    text that is a whole file has line 0.
    """
    path = _plain_path(file.path)
    text = tables.decode(path, _read(file.path), reading.encoding)
    if is_table(file.path):
        of_file = tables.rows_of(path, text)
        rows = enumerate(_with_columns(file.path, of_file, reading), start=1)
        return text, (({"line": line, "row": row}, fields) for row, (line, fields) in rows)
    column = reading.text_columns[0]
    if reading.kind == TAGGING and path.suffix in WORDS_ENDINGS:
        sentences = sentences_of(path, text, None)
        return text, (({"line": line}, _words(column, found)) for line, found in sentences)
    if reading.unit == FILE:
        return text, iter([({"line": WHOLE_FILE}, {column: text})])
    return text, (({"line": line}, {column: one}) for line, one in tables.lines(text))


def _with_columns(
    file: str, rows: Iterator[tables.Row], reading: RowReading
) -> Iterator[tables.Row]:
    """Refuses a table whose header lacks a column; only in JSON Lines each row has its own."""
    is_checked = _plain_path(file).suffix == ".jsonl"
    for line, fields in rows:
        if not is_checked and not isinstance(fields, tables.BadRow):
            _check_columns(file, fields, reading)
            is_checked = True
        yield line, fields


def _check_columns(where: str, fields: dict[str, str], reading: RowReading) -> None:
    for name in (*reading.text_columns, *reading.choice_columns):
        if name not in fields:
            raise InputError(
                f"{where}: has no column {name!r} (it has {', '.join(fields) or 'none'}); name "
                "the columns with --text_columns"
            )


def _words(column: str, found: TaggedExample | tables.BadRow) -> dict[str, str] | tables.BadRow:
    return found if isinstance(found, tables.BadRow) else {column: " ".join(found.words)}


def is_table(path: str) -> bool:
    """Whether a file is a table with named columns, by the ending of its name."""
    return _plain_path(path).suffix in tables.ENDINGS


def _plain_path(path: str) -> pathlib.PurePosixPath:
    return pathlib.PurePosixPath(plain_name(path))


def _read(file: str) -> bytes:
    with input_files.open_stored(file) as stored:
        try:
            return decompress(file, stored).read()
        except CorruptFileError as error:
            raise InputError(f"{file}: cannot be read ({error}); copy it again") from error


def _check_text(where: str, fields: dict[str, str] | tables.BadRow) -> None:
    """Refuses a text of a plain text file that is empty; it has no column to be named."""
    if not isinstance(fields, tables.BadRow) and not any(map(str.strip, fields.values())):
        raise InputError(f"{where}: is empty; fill it in")


def _example(
    where: str, fields: dict[str, str] | tables.BadRow, reading: RowReading
) -> Example | Question:
    if isinstance(fields, tables.BadRow):
        raise fields
    _check_columns(where, fields, reading)
    for name in (*reading.text_columns, *reading.choice_columns):
        if isinstance(fields[name], tables.JsonText):
            raise InputError(f"{where}: has a list or an object in {name!r}; write one text")
        if not fields[name].strip():
            raise InputError(f"{where}: has an empty {name!r}; fill it in")
    texts = [fields[name] for name in reading.text_columns]
    choices = [fields[name] for name in reading.choice_columns]
    return ANSWERS[reading.kind].example(texts, choices)


class SavedModelHandler(ModelHandler):
    """Answers batches of rows with a SavedModel; each worker process loads it once."""

    def __init__(self, model: saved_models.Model, kind: str):
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
        answer_of = ANSWERS[self._kind].answer
        return [
            dict(row.place) | answer_of(self._model.labels, row.example, outputs, i)
            for i, row in enumerate(batch)
        ]

    def batch_elements_kwargs(self) -> dict[str, int]:
        """Returns the greatest size of a batch."""
        return {"max_batch_size": BATCH_SIZE}
