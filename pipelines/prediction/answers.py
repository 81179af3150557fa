"""What the SavedModel of each kind of task takes and gives."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.pipelines.tasks.examples import ChoiceExample, TaggedExample, TextExample
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.task import CHOICE, CLASSIFICATION, REGRESSION, SPAN, TAGGING

# What is told of an answer to a question, with null odds where it may be "".
SPAN_ANSWER = ("start", "end", "score", "null_odds")


class Answers(abc.ABC):
    """Texts without labels, and the answers to them."""

    # Outputs that an evaluation needs.
    OUTPUTS: tuple[str, ...]

    @staticmethod
    def text_columns(training: Mapping[str, Any]) -> list[str]:
        """Returns the columns of the texts that a model was trained on, see training.json."""
        return training["columns"]["text_columns"][: 1 + training["is_pair"]]

    @staticmethod
    def choice_columns(training: Mapping[str, Any]) -> list[str]:
        """Returns the columns of the endings."""
        return []

    @staticmethod
    @abc.abstractmethod
    def example(texts: Sequence[str], choices: Sequence[str]) -> Any:
        """Returns the example of one text or two, and of endings."""

    @staticmethod
    @abc.abstractmethod
    def answer(labels: Sequence[str], outputs: Mapping[str, Any], i: int) -> dict[str, Any]:
        """Returns row i of a SavedModel's outputs in plain types."""


class LabelAnswers(Answers):
    """Labels of texts or pairs."""

    OUTPUTS = ("label", "probabilities")

    @staticmethod
    def example(texts: Sequence[str], choices: Sequence[str]) -> TextExample:
        """Returns a text or a pair."""
        return TextExample(texts[0], texts[1] if len(texts) > 1 else None, None, {})

    @staticmethod
    def answer(labels: Sequence[str], outputs: Mapping[str, Any], i: int) -> dict[str, Any]:
        """Returns the label, and the probability of each."""
        probabilities = outputs["probabilities"][i].tolist()
        return {
            "label": outputs["label"][i].decode(),
            "probabilities": dict(zip(labels, probabilities, strict=True)),
        }


class NumberAnswers(LabelAnswers):
    """Numbers for texts or pairs."""

    OUTPUTS = ("score",)

    @staticmethod
    def answer(labels: Sequence[str], outputs: Mapping[str, Any], i: int) -> dict[str, Any]:
        """Returns the number."""
        return {"score": float(outputs["score"][i])}


class ChoiceAnswers(LabelAnswers):
    """Choices of endings."""

    @staticmethod
    def choice_columns(training: Mapping[str, Any]) -> list[str]:
        """Returns the columns of the endings; those that begin alike are numbered from 0."""
        choices = training["columns"]["choice_columns"]
        if any(name.endswith("*") for name in choices):
            return [f"{choices[0][:-1]}_{label}" for label in training["labels"]]
        return choices

    @staticmethod
    def example(texts: Sequence[str], choices: Sequence[str]) -> ChoiceExample:
        """Returns a text with its endings."""
        text_b = texts[1] if len(texts) > 1 else None
        return ChoiceExample(texts[0], text_b, tuple(choices), None, {})


class TagAnswers(Answers):
    """Tags of words."""

    OUTPUTS = ("tags",)

    @staticmethod
    def text_columns(training: Mapping[str, Any]) -> list[str]:
        """Returns the column of the sentence."""
        return ["text"]

    @staticmethod
    def example(texts: Sequence[str], choices: Sequence[str]) -> TaggedExample:
        """Returns the words of a text."""
        return TaggedExample(tuple(texts[0].split()), None)

    @staticmethod
    def answer(labels: Sequence[str], outputs: Mapping[str, Any], i: int) -> dict[str, Any]:
        """Returns the tag of each word."""
        return {"tags": [tag.decode() for tag in outputs["tags"][i] if tag]}


class SpanAnswers(Answers):
    """Answers to questions."""

    OUTPUTS = ("start_logits", "end_logits")

    @staticmethod
    def example(texts: Sequence[str], choices: Sequence[str]) -> Question:
        """Returns a question on a context."""
        return Question("", texts[0], texts[1], (), False, "")

    @staticmethod
    def answer(labels: Sequence[str], outputs: Mapping[str, Any], i: int) -> dict[str, Any]:
        """Returns the answer, and where it is in its context."""
        names = [name for name in SPAN_ANSWER if name in outputs]
        return {"answer": outputs["answer"][i].decode()} | {n: outputs[n][i].item() for n in names}


ANSWERS: dict[str, type[Answers]] = {
    CLASSIFICATION: LabelAnswers,
    REGRESSION: NumberAnswers,
    CHOICE: ChoiceAnswers,
    TAGGING: TagAnswers,
    SPAN: SpanAnswers,
}
