"""Makes records of a fine-tuned SavedModel's answers to questions; see `predictions`."""

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beambert.pipelines.evaluation import slices
from beambert.pipelines.evaluation.outcomes import Record
from beambert.pipelines.evaluation.predictions import Predictor, Row, encode_record
from beambert.pipelines.evaluation.records import ANSWER, NO_ANSWER
from beambert.pipelines.model_inputs.answers import DecodingParameters, SquadPredictions, decode
from beambert.pipelines.model_inputs.windows import WindowParameters, Windows, make_windows
from beambert.pipelines.prediction.saved_models import Model, check_signature, check_task, load
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.tensorflow_models import call
from beambert.pipelines.storage.weights import TRAINING_FILE
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.squad_scoring import score
from beambert.pipelines.tasks.task import (
    CHOICE,
    CLASSIFICATION,
    MULTI_LABEL,
    REGRESSION,
    SPAN,
    TAGGING,
    Task,
)
from beambert.pipelines.wordpiece.vocabulary import VOCABULARY_FILE, Vocabulary

if TYPE_CHECKING:  # This module imports TensorFlow.
    from beambert.pipelines.wordpiece.offsets import OffsetTokenizer

SIGNATURE = "windows"
INPUTS = ("input_ids", "input_mask", "segment_ids")
# Number of windows in a batch of the model.
_WINDOWS_AT_A_TIME = 32


@dataclasses.dataclass(frozen=True)
class _Loaded:
    """The model and the tokenizer, which the threads of a worker process share."""

    model: Any
    tokenizer: "OffsetTokenizer"


class SpanPredictor:
    """Turns a batch of questions into serialized tf.Examples with the model's answers.

    The threads of a worker process share one loaded model.
    """

    def __init__(self, model: Model, allows_no_answer: bool) -> None:
        """Reads the model's vocabulary.

        Args:
          model: model in a folder that `beambert finetune` finished.
          allows_no_answer: whether "no answer" is an answer (v2.0).

        Raises:
          InputError: training.json or vocab.txt is missing or does not belong to the model.
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
        check_signature(model, task.kind, INPUTS, SIGNATURE)
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
        loaded = self._shared.acquire(self._load)
        length = self._model.training["max_seq_length"]
        questions = [row.example for row in rows]
        windows = make_windows(questions, loaded.tokenizer, WindowParameters.of_length(length))
        logits = _logits(loaded.model, windows, length)
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
                slices.PREDICTION: [given.encode()],
            }
        return record

    def _load(self) -> _Loaded:
        from beambert.pipelines.wordpiece.offsets import OffsetTokenizer

        tokenizer = OffsetTokenizer(self._vocabulary, self._model.training["do_lower_case"])
        return _Loaded(load(self._model), tokenizer)


PREDICTORS: dict[str, type[Predictor] | type[SpanPredictor]] = {
    CLASSIFICATION: Predictor,
    MULTI_LABEL: Predictor,
    REGRESSION: Predictor,
    CHOICE: Predictor,
    TAGGING: Predictor,
    SPAN: SpanPredictor,
}


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
    file = model.path.parent / VOCABULARY_FILE
    if not model.training or not file.is_file():
        raise InputError(
            f"--model={model.path}: has no {TRAINING_FILE} and {VOCABULARY_FILE} beside it; "
            "name a folder that `beambert finetune` finished"
        )
    vocabulary = Vocabulary.parse(file.read_bytes(), str(file))
    if vocabulary.sha256 != model.training["vocabulary_sha256"]:
        raise InputError(
            f"{file}: not the vocabulary that the model was trained with; put that one there"
        )
    return vocabulary


def _logits(model: Any, windows: Windows, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the logits of starts and ends, float32 [windows, width]."""
    is_token = np.arange(width) < windows.lengths[:, None]
    inputs = {name: np.zeros(is_token.shape, np.int32) for name in INPUTS}
    inputs["input_mask"][is_token] = 1
    inputs["input_ids"][is_token] = windows.input_ids
    inputs["segment_ids"][is_token] = windows.segment_ids
    found = []
    for first in range(0, len(windows), _WINDOWS_AT_A_TIME):
        some = slice(first, first + _WINDOWS_AT_A_TIME)
        outputs = call(model, {name: of[some] for name, of in inputs.items()}, SIGNATURE)
        found.append([outputs[name] for name in ("start_logits", "end_logits")])
    starts, ends = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return starts, ends
