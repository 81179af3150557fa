"""The inputs and outputs of the SavedModels of each kind of task."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.pipelines.tasks.examples import ChoiceExample, TaggedExample, TextExample
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
)

# Outputs that describe an answer to a question; models of SQuAD 2.0 also have null odds.
SPAN_ANSWER = ("start", "end", "score", "null_odds")


class Answers(abc.ABC):
    """Makes examples of texts without labels, and answers of a model's outputs."""

    # Outputs that an evaluation needs.
    OUTPUTS: tuple[str, ...]

    @staticmethod
    def text_columns(training: Mapping[str, Any]) -> list[str]:
        """Returns the text columns that a model was trained on, from its training.json."""
        return training["columns"]["text_columns"][: 1 + training["is_pair"]]

    @staticmethod
    def choice_columns(training: Mapping[str, Any]) -> list[str]:
        """Returns the columns of the endings; empty for kinds without endings."""
        return []

    @staticmethod
    @abc.abstractmethod
    def example(texts: Sequence[str], choices: Sequence[str]) -> Any:
        """Returns the example of one or two texts and, for a choice, their endings."""

    @staticmethod
    @abc.abstractmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns row i of a SavedModel's outputs, for the example, in plain types."""


class LabelAnswers(Answers):
    """Answers of a classification: labels of texts or pairs of texts."""

    OUTPUTS = ("label", "probabilities")

    @staticmethod
    def example(texts: Sequence[str], choices: Sequence[str]) -> TextExample:
        """Returns a text or a pair."""
        return TextExample(texts[0], texts[1] if len(texts) > 1 else None, None, {})

    @staticmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the likeliest label, and the probability of each label."""
        probabilities = outputs["probabilities"][i].tolist()
        return {
            "label": outputs["label"][i].decode(),
            "probabilities": dict(zip(labels, probabilities, strict=True)),
        }


class MultiLabelAnswers(LabelAnswers):
    """Answers of several labels: the labels that apply to texts or pairs of texts."""

    OUTPUTS = ("labels", "probabilities")

    @staticmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the labels that apply, and the probability of each label."""
        return {
            "labels": [label.decode() for label in outputs["labels"][i] if label],
            "probabilities": dict(zip(labels, outputs["probabilities"][i].tolist(), strict=True)),
        }


class NumberAnswers(LabelAnswers):
    """Answers of a regression: numbers for texts or pairs of texts."""

    OUTPUTS = ("score",)

    @staticmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the number."""
        return {"score": float(outputs["score"][i])}


class VectorAnswers(LabelAnswers):
    """Answers of an embedding or a similarity: the vector of a text."""

    OUTPUTS = ("embedding",)

    @staticmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the vector."""
        return {"embedding": outputs["embedding"][i].tolist()}


class ChoiceAnswers(LabelAnswers):
    """Answers of a choice: the index of an ending."""

    @staticmethod
    def choice_columns(training: Mapping[str, Any]) -> list[str]:
        """Returns the columns of the endings; a pattern `choice*` gives choice_0, choice_1, …"""
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
    """Answers of a tagging: a tag for each word."""

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
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the words and the tag of each."""
        tags = [tag.decode() for tag in outputs["tags"][i] if tag]
        return {"words": list(example.words), "tags": tags}


class SpanAnswers(Answers):
    """Answers to questions: parts of their contexts."""

    OUTPUTS = ("start_logits", "end_logits")

    @staticmethod
    def example(texts: Sequence[str], choices: Sequence[str]) -> Question:
        """Returns a question on a context."""
        return Question("", texts[0], texts[1], (), False, "")

    @staticmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the answer, its characters in the context and its score."""
        names = [name for name in SPAN_ANSWER if name in outputs]
        return {"answer": outputs["answer"][i].decode()} | {n: outputs[n][i].item() for n in names}


ANSWERS: dict[str, type[Answers]] = {
    CLASSIFICATION: LabelAnswers,
    MULTI_LABEL: MultiLabelAnswers,
    REGRESSION: NumberAnswers,
    RERANK: NumberAnswers,
    CHOICE: ChoiceAnswers,
    TAGGING: TagAnswers,
    SPAN: SpanAnswers,
    EMBEDDING: VectorAnswers,
    SIMILARITY: VectorAnswers,
    LATE_INTERACTION: NumberAnswers,
}
