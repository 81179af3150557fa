"""Makes records of a fine-tuned SavedModel's answers to questions; see `predictions`."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beambert.errors import InputError
from beambert.model_files import TRAINING_FILE
from beambert.pipelines.evaluation.measures import PREDICTION
from beambert.pipelines.evaluation.outcomes import Record
from beambert.pipelines.evaluation.predictions import Predictor, Row, encode_record
from beambert.pipelines.evaluation.records import ANSWER, NO_ANSWER
from beambert.pipelines.model_inputs.answers import DecodingParameters, SquadPredictions, decode
from beambert.pipelines.model_inputs.signatures import ID_INPUTS, WINDOWS_SIGNATURE
from beambert.pipelines.model_inputs.windows import WindowParameters, make_windows
from beambert.pipelines.tasks.saved_models import Model, check_signature, check_task, load
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.squad_scoring import score
from beambert.pipelines.tasks.task import Task
from beambert.pipelines.tokenizers.folders import read_beside
from beambert.pipelines.tokenizers.vocabulary import TOKENIZER_FILE, VOCABULARY_FILE, Vocabulary

if TYPE_CHECKING:  # These modules import TensorFlow.
    from beambert.pipelines.tokenizers.encoding import SubwordOffsets
    from beambert.pipelines.tokenizers.wordpiece import OffsetTokenizer


@dataclasses.dataclass(frozen=True)
class _Loaded:
    """The model and the tokenizer, which the threads of a worker process share."""

    model: Any
    tokenizer: "OffsetTokenizer | SubwordOffsets"


class SpanPredictor(Predictor):
    """Turns a batch of questions into serialized tf.Examples with the model's answers.

    The threads of a worker process share one loaded model.
    """

    def __init__(self, model: Model, allows_no_answer: bool) -> None:
        """Reads the model's vocabulary.

        Args:
          model: model in a folder that `beambert finetune` finished.
          allows_no_answer: whether "no answer" is an answer (v2.0).

        Raises:
          InputError: training.json or the vocabulary is missing or does not belong to the model.
        """
        from apache_beam.utils import shared

        self._model = model
        self._allows_no_answer = allows_no_answer
        self._vocabulary = _vocabulary(model)
        self._shared = shared.Shared()

    @classmethod
    def of_task(cls, task: Task, model: Model) -> "SpanPredictor":
        """Returns the predictor of a task."""
        return cls(model, task.allows_no_answer)

    @staticmethod
    def check_model(task: Task, model: Model, example: Question) -> None:
        """Refuses a model that gives no logits of windows, or was trained for another task.

        Raises:
          InputError: it is such a model.
        """
        check_signature(model, task.kind, ID_INPUTS, WINDOWS_SIGNATURE)
        check_task(model, task.name)

    @staticmethod
    def official(
        task: Task, examples: Sequence[Question], records: Sequence[Record]
    ) -> tuple[dict[str, float], dict[str, str]]:
        """Returns the metrics of SQuAD's official scorer and its input files by name."""
        found = predictions_of(examples, records, task.allows_no_answer)
        scores = score(examples, found.answers, task.allows_no_answer, found.null_odds or None)
        return scores.metrics, found.files()

    def __call__(self, rows: Sequence[Row]) -> list[bytes]:
        """Returns one serialized tf.Example for each row."""
        # Commands import this module for their --help, which must not load TensorFlow.
        from beambert.pipelines.model_inputs.text_models import window_logits

        loaded = self._shared.acquire(self._load)
        length = self._model.training["max_seq_length"]
        questions = [row.example for row in rows]
        windows = make_windows(questions, loaded.tokenizer, WindowParameters.of_length(length))
        logits = window_logits(loaded.model.signatures[WINDOWS_SIGNATURE], windows, length)
        found = decode(questions, windows, *logits, self._allows_no_answer, DecodingParameters())
        scores = score(questions, found.answers, self._allows_no_answer)
        records = []
        for i, row in enumerate(rows):
            of_row = {"exact_match": [float(scores.exact[i])], "squad_f1": [float(scores.f1[i])]}
            records.append({**row.record, **self._answer(row.example, found), **of_row})
        return [encode_record(record) for record in records]

    def _answer(self, question: Question, found: SquadPredictions) -> Record:
        answer, n_best = found.answers[question.id], found.n_best[question.id]
        probability = next(one["probability"] for one in n_best if one["text"] == answer)
        record = {
            "answer": [answer.encode()],
            "probability": [probability],
            "n_best": [json.dumps(n_best).encode()],
        }
        if self._allows_no_answer:
            given = ANSWER if answer else NO_ANSWER
            record |= {
                "null_odds": [found.null_odds[question.id]],
                PREDICTION: [given.encode()],
            }
        return record

    def _load(self) -> _Loaded:
        from beambert.pipelines.tokenizers.encoding import make_offset_tokenizer

        tokenizer = make_offset_tokenizer(self._vocabulary, self._model.training["do_lower_case"])
        return _Loaded(load(self._model), tokenizer)


def predictions_of(
    questions: Sequence[Question], records: Sequence[Record], allows_no_answer: bool
) -> SquadPredictions:
    """Returns the predictions that records hold."""
    names = ("answer", "n_best", *(["null_odds"] if allows_no_answer else []))
    found = {
        name: {q.id: r[name][0] for q, r in zip(questions, records, strict=True)} for name in names
    }
    return SquadPredictions(
        {name: answer.decode() for name, answer in found["answer"].items()},
        {name: json.loads(n_best) for name, n_best in found["n_best"].items()},
        found.get("null_odds", {}),
    )


def _vocabulary(model: Model) -> Vocabulary:
    """Returns the vocabulary or tokenizer beside a model.

    Raises:
      InputError: there is none, or it is not that of the model.
    """
    folder = str(model.path.parent)
    is_there = any(os.path.isfile(f"{folder}/{name}") for name in (VOCABULARY_FILE, TOKENIZER_FILE))
    if not model.training or not is_there:
        raise InputError(
            f"--model={model.path}: has no {TRAINING_FILE} and {VOCABULARY_FILE} beside it; "
            "name a folder that `beambert finetune` finished"
        )
    vocabulary = read_beside(folder, "", _read, os.path.exists)
    if vocabulary.sha256 != model.training["vocabulary_sha256"]:
        raise InputError(
            f"{vocabulary.name}: not the {vocabulary.WHAT} that the model was trained with; put "
            "that one there"
        )
    return vocabulary


def _read(path: str, flag: str) -> bytes:
    return pathlib.Path(path).read_bytes()
