"""The transforms for pipelines in Beam YAML; yaml_providers.yaml gives them their names.

The fields of a job are the configuration of its transform. Elements are rows.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.typehints.schemas import named_fields_from_element_type

from beambert.errors import InputError
from beambert.pipelines.features import CreateTaskFeatures
from beambert.pipelines.prediction import Predict
from beambert.pipelines.pretraining_data.graph import CreatePretrainingData
from beambert.pipelines.pretraining_data.job import PretrainingDataJob
from beambert.pipelines.pretraining_data.record_parts import MakeBertInstances, WriteRecords
from beambert.pipelines.pretraining_data.rows import (
    DocumentRow,
    InstanceRow,
    RejectRow,
    SentencesRow,
    TokenizedRow,
)
from beambert.pipelines.pretraining_data.text_parts import (
    Deduplicate,
    ReadDocuments,
    SplitSentences,
    Tokenize,
)
from beambert.pipelines.task_jobs import FeaturesJob, PredictionJob
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.verification.job import VerificationJob
from beambert.pipelines.verification.run import VerifyRecords
from beambert.pipelines.vocabulary_learning.graph import LearnVocabulary
from beambert.pipelines.vocabulary_learning.job import VocabularyJob

# Types of columns with one value.
_PLAIN = (str, bytes, bool, int, float, np.int32, np.int64, np.float32, np.float64)


def begins(function: Callable[..., beam.PTransform]) -> Callable[..., beam.PTransform]:
    """Tells Beam YAML that the transform may begin a pipeline."""
    function._yaml_requires_inputs = False
    return function


class Folder(NamedTuple):
    """A finished folder."""

    folder: str


class LearntVocabulary(NamedTuple):
    """A vocabulary, and how many tokens it has."""

    path: str
    tokens: int


class Verified(NamedTuple):
    """What was found in records: the number of faults, and the content of verification.json."""

    faults: int
    report: str


class AnsweredText(NamedTuple):
    """A text, and the answer of a model as a JSON object."""

    text: str
    answer: str


def check_columns(rows: beam.PCollection, needed: Mapping[str, Any]) -> None:
    """Refuses rows without a column that a transform needs, or with one of another type.

    Args:
      rows: the rows, with a schema.
      needed: name of a column -> its type.

    Raises:
      InputError: a column is missing, or holds a text or number and shall not.
    """
    there = dict(named_fields_from_element_type(rows.element_type))
    for column, kind in needed.items():
        if column not in there:
            raise InputError(
                f"{column}: the rows have no such column; theirs are {', '.join(there)}; name one "
                "of them, or make it with MapToFields"
            )
        # Numbers, and other types such as optional ones, are left to the steps.
        is_other = there[column] is not kind and (kind is str or kind not in _PLAIN)
        if there[column] in _PLAIN and is_other:
            raise InputError(
                f"{column}: the rows have a column of the type {there[column].__name__}, where "
                f"{'a text' if kind is str else 'a list'} is needed; make it with MapToFields"
            )


class OnRows(beam.PTransform):
    """A transform that takes texts from a column of rows and gives rows."""

    def __init__(self, transform: beam.PTransform, make_row: Any, kind: type, column: str):
        """Takes what is done to the texts.

        Args:
          transform: transform of texts, or of a pipeline's beginning.
          make_row: function from an element of the transform to a row.
          kind: type of the rows.
          column: column of the texts.
        """
        super().__init__()
        self._transform, self._make_row, self._kind = transform, make_row, kind
        self._column = column

    def expand(self, rows: Any) -> beam.PCollection:
        """Adds the steps."""
        if isinstance(rows, beam.PCollection):
            column = self._column
            check_columns(rows, {column: str})
            rows |= "Texts" >> beam.Map(lambda row: getattr(row, column)).with_output_types(str)
        made = rows | self._transform
        return made | "Rows" >> beam.Map(self._make_row).with_output_types(self._kind)


@begins
def learn_vocabulary(column: str = "text", **fields: Any) -> beam.PTransform:
    """Returns `LearnVocabulary`, whose job has the fields."""
    job = VocabularyJob(**fields)

    def make_row(vocabulary: Any) -> LearntVocabulary:
        return LearntVocabulary(job.output, len(vocabulary))

    return OnRows(LearnVocabulary(job), make_row, LearntVocabulary, column)


@begins
def create_pretraining_data(column: str = "text", **fields: Any) -> beam.PTransform:
    """Returns `CreatePretrainingData`, whose job has the fields."""
    job = PretrainingDataJob(**fields)
    return OnRows(CreatePretrainingData(job), Folder, Folder, column)


@begins
def verify_records(**fields: Any) -> beam.PTransform:
    """Returns `VerifyRecords`, whose job has the fields."""
    job = VerificationJob(**fields)

    def make_row(found: Any) -> Verified:
        return Verified(found["faults"], json.dumps(found))

    return OnRows(VerifyRecords(job), make_row, Verified, "")


@begins
def predict(column: str = "text", **fields: Any) -> beam.PTransform:
    """Returns `Predict`, whose job has the fields."""
    transform = Predict(PredictionJob(**fields))
    model_column = transform.text_columns[0]

    def make_row(answer: Any) -> AnsweredText:
        return AnsweredText(str(answer[model_column]), json.dumps(answer))

    return OnRows(transform, make_row, AnsweredText, column)


@begins
def create_task_features(task: str, **fields: Any) -> beam.PTransform:
    """Returns `CreateTaskFeatures` for a task by its name; its job has the other fields."""
    job = FeaturesJob(find_task(task), **fields)
    return OnRows(CreateTaskFeatures(job), Folder, Folder, "")


class Part(beam.PTransform):
    """A part of the data job that takes any rows with the columns that it needs."""

    def __init__(self, part: beam.PTransform, kind: type):
        """Takes the part and the type of its rows, whose defaults stand for missing columns."""
        super().__init__()
        self._part, self._kind = part, kind

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        """Adds the steps."""
        kind = self._kind
        types = kind.__annotations__.items()
        check_columns(rows, {name: t for name, t in types if name not in kind._field_defaults})

        def convert(row: Any) -> Any:
            return kind(**{name: getattr(row, name) for name in kind._fields if hasattr(row, name)})

        return rows | "Rows" >> beam.Map(convert).with_output_types(kind) | self._part


class ReadingPart(beam.PTransform):
    """`ReadDocuments` with Beam YAML's rule for what cannot be read."""

    def __init__(self, part: ReadDocuments, output: str):
        """Takes the part and the name of the output of the rejects; without one they are errors."""
        super().__init__()
        self._part, self._output = part, output

    def expand(self, begin: beam.pvalue.PBegin) -> dict[str, beam.PCollection]:
        """Adds the steps."""
        read = begin | self._part
        if self._output:
            return {"good": read.documents, self._output: read.rejects}
        _ = read.rejects | "Refuse" >> beam.Map(_refuse)
        return {"out": read.documents}


@begins
def read_documents(error_handling: dict[str, str] | None = None, **fields: Any) -> beam.PTransform:
    """Returns `ReadDocuments`; `error_handling` has the `output` for the rejects."""
    return ReadingPart(ReadDocuments(**fields), (error_handling or {}).get("output", ""))


def split_sentences(**fields: Any) -> beam.PTransform:
    """Returns `SplitSentences`."""
    return Part(SplitSentences(**fields), DocumentRow)


def deduplicate() -> beam.PTransform:
    """Returns `Deduplicate`."""
    return Part(Deduplicate(), SentencesRow)


def tokenize(**fields: Any) -> beam.PTransform:
    """Returns `Tokenize`."""
    return Part(Tokenize(**fields), SentencesRow)


def make_bert_instances(**fields: Any) -> beam.PTransform:
    """Returns `MakeBertInstances`, whose job has the fields."""
    return Part(MakeBertInstances(PretrainingDataJob(**fields)), TokenizedRow)


def write_records(**fields: Any) -> beam.PTransform:
    """Returns `WriteRecords`, whose job has the fields."""
    write = WriteRecords(PretrainingDataJob(**fields))
    folders = "Folders" >> beam.Map(Folder).with_output_types(Folder)
    return Part(write | folders, InstanceRow)


def _refuse(reject: RejectRow) -> None:
    raise InputError(
        f"{reject.path}: {reject.detail}; mend it, or name an output for such documents in "
        "error_handling"
    )
