"""The prediction records of each kind of task: how truths and answers are written and read.

A record is a tf.Example. Each has `row`, the position of the example, and its value in each
slicing. The other features depend on the kind of the task:

    classification, choice   label, label_index, prediction, prediction_index, probabilities
    multi_label              label_flags, prediction_flags, probabilities (one for each label)
    regression, similarity   number (the label), score
    rerank                   query_id (see `ranking.text_id`), number (the relevance), score
    embedding                text_ids (see `ranking.text_id`), found (the best text), ndcg_at_10,
                             mrr_at_10, recall_at_10
    tagging                  tags, predicted_tags (one for each word)
    span                     impossible, answer, probability, n_best, null_odds, exact_match,
                             squad_f1
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.evaluation.multi_label_records import MultiLabelRecords
from beambert.pipelines.evaluation.outcome_base import Record
from beambert.pipelines.evaluation.ranking_records import RankingRecords
from beambert.pipelines.evaluation.record_base import (
    Mistake,
    PredictionRecords,
    Slices,
    check_finite,
    excerpt,
    text_of,
)
from beambert.pipelines.tasks.entities import entities
from beambert.pipelines.tasks.examples import ChoiceExample, TaggedExample, TextExample
from beambert.pipelines.tasks.ranking import text_id
from beambert.pipelines.tasks.saved_models import Model
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.task import (
    CHOICE,
    CLASSIFICATION,
    EMBEDDING,
    LATE_INTERACTION,
    MULTI_LABEL,
    REGRESSION,
    RERANK,
    SIMILARITY,
    SPAN,
    TAGGING,
    Task,
)

# Features of a record except its values in the slicings by column.
OWN_FEATURES = (
    *("row", "label_index", "prediction_index", "probabilities", "number", "score"),
    *("label_flags", "prediction_flags"),
    *("tags", "predicted_tags", "impossible", "answer", "probability", "n_best", "null_odds"),
    *("exact_match", "squad_f1"),
    *("query_id", "text_ids", "vectors", "found", "ndcg_at_10", "mrr_at_10", "recall_at_10"),
)
# Greatest numbers of characters in an excerpt of a context: all, and those before the answer.
_MOST_OF_CONTEXT, _BEFORE_ANSWER = 280, 120
# Labels and predictions of questions if some have no answer.
ANSWER, NO_ANSWER = "answer", "no answer"


class ClassRecords(PredictionRecords):
    """Records of a classification."""

    WEIGHT = ("probability", "with a wrong answer that the model was surest of")

    @staticmethod
    def truth(example: Any, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the index of the label."""
        return {"label_index": [labels.index(example.label)]}

    @staticmethod
    def label_slices(examples: Sequence[Any], labels: Sequence[str]) -> Slices | None:
        """Returns a slice for each label."""
        return tuple(example.label for example in examples), tuple(labels)

    @staticmethod
    def predictions(task: Task, labels: Sequence[str]) -> tuple[str, ...] | None:
        """Returns the labels."""
        return tuple(labels)

    @staticmethod
    def answer(
        model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int
    ) -> Mapping[str, Sequence[Any]]:
        """Returns the predicted label, its index and the probabilities of all labels."""
        name = outputs["label"][i]
        # `check` refuses a name that labels.txt lacks.
        known = name.decode(errors="replace") in model.labels
        return {
            "prediction": [name],
            "prediction_index": [model.labels.index(name.decode()) if known else -1],
            "probabilities": outputs["probabilities"][i].tolist(),
        }

    @staticmethod
    def check(record: Record, model: Model) -> None:
        """Refuses probabilities that are not finite, and a label that is not the likeliest."""
        check_finite(record, "probabilities", model)
        index, probabilities = record["prediction_index"][0], record["probabilities"]
        if index < 0 or probabilities[index] < max(probabilities):
            prediction = record["prediction"][0].decode(errors="replace")
            raise InputError(
                f"--model={model.path}: answers {prediction!r}, which is not the likeliest line of "
                "labels.txt; put the model's own labels.txt beside it"
            )

    @classmethod
    def mistake(cls, record: Record, example: Any) -> Mistake:
        """Returns a mistake whose weight is the probability of the wrong label."""
        index = record["prediction_index"][0]
        weight = record["probabilities"][index] if index != record["label_index"][0] else 0.0
        predicted = record["prediction"][0].decode()
        written = (cls._written(example, label) for label in (example.label, predicted))
        return Mistake(text_of(example), *written, weight)

    @staticmethod
    def _written(example: Any, label: str) -> str:
        return label


class ChoiceRecords(ClassRecords):
    """Records of a choice."""

    @staticmethod
    def _written(example: ChoiceExample, label: str) -> str:
        return example.choices[int(label)]


class NumberRecords(PredictionRecords):
    """Records of a regression."""

    WEIGHT = ("difference", "whose prediction is furthest from the label")

    @staticmethod
    def truth(example: TextExample, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the number."""
        return {"number": [float(example.label)]}

    @staticmethod
    def label_slices(examples: Sequence[TextExample], labels: Sequence[str]) -> Slices | None:
        """Returns four ranges with about equal numbers of examples; equal labels share a range."""
        numbers = [float(example.label) for example in examples]
        edges = np.quantile(numbers, [0.25, 0.5, 0.75], method="inverted_cdf")
        quarters = np.searchsorted(edges, numbers)
        names = {}
        for quarter in sorted(set(quarters.tolist())):
            inside = np.array(numbers)[quarters == quarter]
            names[quarter] = f"{inside.min():g} to {inside.max():g}"
        return tuple(names[quarter] for quarter in quarters.tolist()), tuple(names.values())

    @staticmethod
    def answer(
        model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int
    ) -> Mapping[str, Sequence[Any]]:
        """Returns the number."""
        return {"score": [float(outputs["score"][i])]}

    @staticmethod
    def check(record: Record, model: Model) -> None:
        """Refuses a score that is not finite."""
        check_finite(record, "score", model)

    @staticmethod
    def mistake(record: Record, example: TextExample) -> Mistake:
        """Returns a mistake whose weight is the distance from the label."""
        score, number = record["score"][0], record["number"][0]
        return Mistake(text_of(example), example.label, f"{score:.3f}", abs(score - number))


class CosineRecords(NumberRecords):
    """Records of a similarity, whose cosines have another range than the scores of the file."""

    WEIGHT = ("difference of ranks", "whose rank by the cosine is furthest from that by the label")

    @classmethod
    def mistakes(cls, records: Sequence[Record], examples: Sequence[TextExample]) -> list[Mistake]:
        """Returns mistakes whose weight is the distance from the ranks of the label.

        Examples with the same label may have its ranks in any order.
        """
        labels, scores = (
            np.array([record[name][0] for record in records]) for name in ("number", "score")
        )
        first, last = _ranks(labels)
        ranks = np.mean(_ranks(scores), axis=0)
        weights = np.maximum(np.maximum(first - ranks, ranks - last), 0.0)
        found = super().mistakes(records, examples)
        return [
            dataclasses.replace(mistake, weight=weight)
            for mistake, weight in zip(found, weights.tolist(), strict=True)
        ]


class RelevanceRecords(NumberRecords):
    """Records of a reranking."""

    @staticmethod
    def truth(example: TextExample, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the relevance, and the id of the query."""
        return {"query_id": [text_id(example.text)], "number": [float(example.label)]}

    @staticmethod
    def label_slices(examples: Sequence[TextExample], labels: Sequence[str]) -> Slices | None:
        """Returns None: a slice must have the candidates of a query together."""
        return None

    @staticmethod
    def query(example: TextExample) -> str:
        """Returns the query."""
        return example.text


class TagRecords(PredictionRecords):
    """Records of a tagging."""

    WEIGHT = ("wrong entities", "with the most wrong or missed entities")

    @staticmethod
    def truth(example: TaggedExample, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the tags."""
        return {"tags": [tag.encode() for tag in example.tags]}

    @staticmethod
    def answer(
        model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int
    ) -> Mapping[str, Sequence[Any]]:
        """Returns the tags of the words."""
        return {"predicted_tags": outputs["tags"][i][: len(record["tags"])].tolist()}

    @staticmethod
    def check(record: Record, model: Model) -> None:
        """Refuses tags that labels.txt lacks, and more or fewer tags than words."""
        tags = [tag.decode(errors="replace") for tag in record["predicted_tags"]]
        unknown = [tag for tag in tags if tag not in model.labels]
        if unknown or len(tags) != len(record["tags"]):
            raise InputError(
                f"--model={model.path}: gives {unknown[0]!r}, which is not in labels.txt; put the "
                "model's own labels.txt beside it"
                if unknown
                else f"--model={model.path}: gives {len(tags)} tags for {len(record['tags'])} "
                "words; export the model again"
            )

    @staticmethod
    def mistake(record: Record, example: TaggedExample) -> Mistake:
        """Returns a mistake whose weight is the number of wrong or missed entities."""
        predicted = [tag.decode() for tag in record["predicted_tags"]]
        wrong = set(entities(example.tags)) ^ set(entities(predicted))
        return Mistake(
            " ".join(example.words),
            _named(example.words, example.tags),
            _named(example.words, predicted),
            float(len(wrong)),
        )


class SpanRecords(PredictionRecords):
    """Records of questions; `SpanPredictor` makes and checks their answers."""

    WEIGHT = (
        "probability",
        "with an answer that has no right word and that the model was surest of",
    )

    @staticmethod
    def truth(example: Question, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns whether the context has no answer."""
        return {"impossible": [int(example.is_impossible)]}

    @staticmethod
    def label_slices(examples: Sequence[Question], labels: Sequence[str]) -> Slices | None:
        """Returns the slicing into questions with and without an answer; None if all have one."""
        if not any(question.is_impossible for question in examples):
            return None
        values = tuple(NO_ANSWER if q.is_impossible else ANSWER for q in examples)
        return values, (ANSWER, NO_ANSWER)

    @staticmethod
    def predictions(task: Task, labels: Sequence[str]) -> tuple[str, ...] | None:
        """Returns "answer" and "no answer" if questions may have none; else None."""
        return (ANSWER, NO_ANSWER) if task.allows_no_answer else None

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


RECORDS: dict[str, type[PredictionRecords]] = {
    CLASSIFICATION: ClassRecords,
    MULTI_LABEL: MultiLabelRecords,
    REGRESSION: NumberRecords,
    RERANK: RelevanceRecords,
    CHOICE: ChoiceRecords,
    TAGGING: TagRecords,
    SPAN: SpanRecords,
    EMBEDDING: RankingRecords,
    SIMILARITY: CosineRecords,
    LATE_INTERACTION: RankingRecords,
}


def _named(words: Sequence[str], tags: Sequence[str]) -> str:
    found = entities(tags)
    return "\n".join(f"{' '.join(words[one.start : one.end])} ({one.type})" for one in found) or "–"


def _ranks(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first and the last rank of each number, from 1; equal ones share their ranks."""
    in_order = np.sort(numbers)
    return np.searchsorted(in_order, numbers) + 1, np.searchsorted(in_order, numbers, "right")
