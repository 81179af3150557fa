"""The worst errors of a model, to read."""

import dataclasses
from collections.abc import Sequence

from beambert.pipelines.evaluation.outcomes import Record
from beambert.pipelines.tasks.declarations import CHOICE, CLASSIFICATION, REGRESSION, SPAN, TAGGING
from beambert.pipelines.tasks.entities import entities
from beambert.pipelines.tasks.examples import ChoiceExample, Example, TaggedExample
from beambert.pipelines.tasks.squad import Question

_TO_SHOW = 20


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A wrong answer.

    Attributes:
      text: what the model was given.
      expected: the right answer.
      predicted: the model's.
      weight: how bad it is; see `WEIGHTS`.
    """

    text: str
    expected: str
    predicted: str
    weight: float


# Kind -> what the weight of a mistake is, and which are shown.
_SUREST = ("probability", "that the model was surest of")
WEIGHTS = {
    CLASSIFICATION: _SUREST,
    CHOICE: _SUREST,
    REGRESSION: ("difference", "that are furthest off"),
    TAGGING: ("wrong entities", "with the most wrong or missed entities"),
    SPAN: ("probability", "without a right word that the model was surest of"),
}


def worst_mistakes(
    kind: str, records: Sequence[Record], examples: Sequence[Example | Question]
) -> list[Mistake]:
    """Returns the worst, in order; of equally bad ones the first in the file."""
    mistake = {REGRESSION: _of_number, TAGGING: _of_tags, SPAN: _of_answer}.get(kind, _of_class)
    found = [mistake(record, example) for record, example in zip(records, examples, strict=True)]
    wrong = [mistake for mistake in found if mistake.weight > 0]
    return sorted(wrong, key=lambda mistake: -mistake.weight)[:_TO_SHOW]


def _of_class(record: Record, example: Example) -> Mistake:
    index = record["prediction_index"][0]
    weight = record["probabilities"][index] if index != record["label_index"][0] else 0.0
    predicted = record["prediction"][0].decode()
    if not isinstance(example, ChoiceExample):
        return Mistake(_text(example), example.label, predicted, weight)
    return Mistake(
        _text(example), example.choices[int(example.label)], example.choices[int(predicted)], weight
    )


def _of_number(record: Record, example: Example) -> Mistake:
    score, number = record["score"][0], record["number"][0]
    return Mistake(_text(example), example.label, f"{score:.3f}", abs(score - number))


def _of_tags(record: Record, example: TaggedExample) -> Mistake:
    predicted = [tag.decode() for tag in record["predicted_tags"]]
    wrong = set(entities(example.tags)) ^ set(entities(predicted))
    return Mistake(
        " ".join(example.words),
        _named(example.words, example.tags),
        _named(example.words, predicted),
        float(len(wrong)),
    )


def _of_answer(record: Record, question: Question) -> Mistake:
    answers = dict.fromkeys(answer.text for answer in question.answers)
    return Mistake(
        f"{question.question}\n\n{question.context}",
        "\n".join(answers) or "–",
        record["answer"][0].decode() or "–",
        0.0 if record["squad_f1"][0] else record["probability"][0],
    )


def _named(words: Sequence[str], tags: Sequence[str]) -> str:
    found = entities(tags)
    return "\n".join(f"{' '.join(words[one.start : one.end])} ({one.type})" for one in found) or "–"


def _text(example: Example) -> str:
    return example.text if example.text_b is None else f"{example.text}\n{example.text_b}"
