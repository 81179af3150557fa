"""Span: the part of a context that answers a question, as in SQuAD."""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.tasks.saved_models import (
    ID_INPUTS,
    Model,
    check_signature,
    check_task,
)
from beambert.pipelines.tasks.squad import Question, read_questions, score
from beambert.pipelines.tasks.task import (
    DEFAULT_SPAN_LENGTH,
    PREDICTION,
    SPAN,
    ArrayOutcomes,
    ExampleFile,
    Mistake,
    Record,
    Row,
    Slices,
    Task,
    column,
    excerpt,
)
from beambert.pipelines.tasks.windows import SquadPredictions

NO_ANSWER_REASON = "has no answer that is in its context"
# Outputs that describe an answer to a question; models of SQuAD 2.0 also have null odds.
SPAN_ANSWER = ("start", "end", "score", "null_odds")
# Greatest numbers of characters in an excerpt of a context: all, and those before the answer.
_MOST_OF_CONTEXT, _BEFORE_ANSWER = 280, 120
# Labels and predictions of questions if some have no answer.
ANSWER, NO_ANSWER = "answer", "no answer"


@dataclasses.dataclass(frozen=True)
class AnswerOutcomes(ArrayOutcomes):
    """The outcomes of questions.

    Attributes:
      exact_match: 1 if the answer is right, else 0, [questions].
      f1: F1 of the words of the answer, [questions].
      impossible: whether the context has no answer, [questions].
    """

    exact_match: NDArray[np.float64]
    f1: NDArray[np.float64]
    impossible: NDArray[np.int64]

    FEATURES = ("exact_match", "squad_f1", "impossible")
    SHARES = frozenset({"exact_match"})
    METRICS = ("squad_f1", "exact_match")

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of prediction records."""
        return cls(*(column(records, name) for name in cls.FEATURES))

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns metrics by name."""
        found = {"exact_match": self.exact_match, "squad_f1": self.f1}
        return {name: float(found[name].mean()) for name in names}

    def constants(self) -> list[tuple[str, Self]]:
        """Returns the constant answer that there is none."""
        right = self.impossible.astype(float)
        return [("no answer", type(self)(right, right, self.impossible))]


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


@dataclasses.dataclass(frozen=True)
class Span(Task):
    """A task that asks where in its context a question is answered."""

    OUTCOMES = AnswerOutcomes

    kind: ClassVar[str] = SPAN
    OBJECTIVE: ClassVar[str] = "beambert.trainer.tasks.span:SpanObjective"
    OWN: ClassVar[Mapping[str, Any] | None] = None
    metrics: tuple[str, ...] = ("squad_f1", "exact_match")

    ENDINGS = (".json",)
    HAS_LABELS = False
    OUTPUTS = ("start_logits", "end_logits")
    WEIGHT = (
        "probability",
        "with an answer that has no right word and that the model was surest of",
    )
    WITHOUT_MODEL = "no answer to any question"

    def read(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the questions."""
        found = read_questions(path, self.allows_no_answer)
        return ExampleFile(found.questions, notes=found.notes())

    def read_to_learn(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the questions that are impossible or have an answer that is in their context."""
        found = read_questions(path, self.allows_no_answer)
        left_out = {NO_ANSWER_REASON: len(found.rejected)} if found.rejected else {}
        return ExampleFile(found.learnable(), notes=found.notes(), unlearnable=left_out)

    def label_names(self, example: Question) -> Iterable[str]:
        """Returns `impossible` or `answerable`."""
        return ("impossible" if example.is_impossible else "answerable",)

    def is_pair(self, example: Question) -> bool:
        """Returns True: a question has a context."""
        return True

    def default_length(self, trained_length: int | None = None) -> int:
        """Returns the default of run_squad.py."""
        return DEFAULT_SPAN_LENGTH

    @staticmethod
    def unlabelled(texts: Sequence[str], choices: Sequence[str]) -> Question:
        """Returns a question on a context."""
        return Question("", texts[0], texts[1], (), False)

    @staticmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the answer, its characters in the context and its score."""
        names = [name for name in SPAN_ANSWER if name in outputs]
        return {"answer": outputs["answer"][i].decode()} | {n: outputs[n][i].item() for n in names}

    @staticmethod
    def truth_of(example: Question, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns whether the context has no answer."""
        return {"impossible": [int(example.is_impossible)]}

    @staticmethod
    def label_slices(examples: Sequence[Question], labels: Sequence[str]) -> Slices | None:
        """Returns the slicing into questions with and without an answer; None if all have one."""
        if not any(question.is_impossible for question in examples):
            return None
        values = tuple(NO_ANSWER if q.is_impossible else ANSWER for q in examples)
        return values, (ANSWER, NO_ANSWER)

    def predictions(self, labels: Sequence[str]) -> tuple[str, ...] | None:
        """Returns "answer" and "no answer" if questions may have none; else None."""
        return (ANSWER, NO_ANSWER) if self.allows_no_answer else None

    @staticmethod
    def mistake(record: Record, example: Question) -> Mistake:
        """Returns a mistake whose weight is the probability of an answer without any right word."""
        answers = dict.fromkeys(answer.text for answer in example.answers)
        start = next((answer.start for answer in example.answers if answer.start is not None), 0)
        context = excerpt(example.context, _MOST_OF_CONTEXT, max(start - _BEFORE_ANSWER, 0))
        return Mistake(
            f"{example.question}\n\n{context}",
            "\n".join(answers) or "–",
            record["answer"][0].decode() or "–",
            0.0 if record["squad_f1"][0] else record["probability"][0],
        )

    def check_model(self, model: Model, example: Question) -> None:
        """Refuses a model that gives no logits of windows, or was trained for another task.

        Raises:
          InputError: it is such a model.
        """
        check_signature(model, self.OUTPUTS, ID_INPUTS)
        check_task(model, self.name)

    def official(
        self, examples: Sequence[Question], records: Sequence[Record]
    ) -> tuple[dict[str, float], dict[str, str]]:
        """Returns the metrics of SQuAD's official scorer and its input files by name."""
        found = predictions_of(examples, records, self.allows_no_answer)
        scores = score(examples, found.answers, self.allows_no_answer, found.null_odds or None)
        return scores.metrics, found.files()

    def predict(self, model: Model, loaded: Any, rows: Sequence[Row]) -> list[Record]:
        """Returns the features of the records that hold the answers to questions."""
        questions = [row.example for row in rows]
        found = loaded.decoded(questions)
        scores = score(questions, found.answers, self.allows_no_answer)
        records = []
        for i, row in enumerate(rows):
            of_row = {"exact_match": [float(scores.exact[i])], "squad_f1": [float(scores.f1[i])]}
            records.append({**self._answer(row.example, found), **of_row})
        return records

    def _answer(self, question: Question, found: SquadPredictions) -> Record:
        answer, n_best = found.answers[question.id], found.n_best[question.id]
        probability = next(one["probability"] for one in n_best if one["text"] == answer)
        record = {
            "answer": [answer.encode()],
            "probability": [probability],
            "n_best": [json.dumps(n_best).encode()],
        }
        if self.allows_no_answer:
            given = ANSWER if answer else NO_ANSWER
            record |= {
                "null_odds": [found.null_odds[question.id]],
                PREDICTION: [given.encode()],
            }
        return record
