"""Questions on contexts; a sequence is a question with a window of its context."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from beambert.model.classifier import BertTokenClassifier, Head
from beambert.model.config import EncoderConfig
from beambert.model.families.family import QUESTION_ANSWERING
from beambert.pipelines.tasks.saved_models import ID_INPUTS
from beambert.pipelines.tasks.squad import score
from beambert.pipelines.tasks.task import DEV, TRAIN
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tasks.windows import Windows, decode, make_windows, span_features
from beambert.pipelines.tokenizers.encoding import make_offset_tokenizer
from beambert.trainer.loop.objectives import (
    Features,
    Sums,
    Tensor,
    cross_entropy,
    example_weights,
    is_correct,
)
from beambert.trainer.tasks.base import TaskData, TaskObjective

if TYPE_CHECKING:
    from beambert.trainer.tasks.graph import TaskGraph


class SpanData(TaskData):
    """The examples of SQuAD; an input holds a question and a window of its context."""

    def problems(self) -> list[str]:
        """Returns also that a v2.0 task has no unanswerable questions in train."""
        found = super().problems()
        if self.task.allows_no_answer and not any(
            example.is_impossible for example in self.examples[TRAIN]
        ):
            found.append(
                f"{self._read.files[TRAIN]}: no question is marked as impossible, so the model "
                "cannot learn when to give no answer; the task squad1.1 always gives one"
            )
        return found

    def tokenize(self, text_features: TextFeatures) -> None:
        """Makes the features of both splits; decoding reads answers off the windows of dev."""
        tokenizer = make_offset_tokenizer(text_features.vocabulary, text_features.do_lower_case)

        def windows_of(split: str) -> Windows:
            return make_windows(self.examples[split], tokenizer, text_features.max_seq_length)

        self._dev_windows = windows_of(DEV)
        self._features = {
            TRAIN: span_features(windows_of(TRAIN)),
            DEV: span_features(self._dev_windows),
        }

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the metrics of dev as shares, and those of the official scorer in per cent."""
        predictions = decode(
            self.examples[DEV],
            self._dev_windows,
            outputs["start_logits"],
            outputs["end_logits"],
            self.task.allows_no_answer,
        )
        return self._scores(predictions.answers, predictions.null_odds or None)

    def baseline(self) -> dict[str, float]:
        """Returns the metrics for giving no answer to any question."""
        return self._scores({question.id: "" for question in self.examples[DEV]})

    def _scores(
        self, answers: Mapping[str, str], null_odds: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        found = score(self.examples[DEV], answers, self.task.allows_no_answer, null_odds)
        metrics = {"squad_f1": found.f1.mean(), "exact_match": found.exact.mean()}
        metrics |= {f"official_{name}": value for name, value in found.metrics.items()}
        return {name: float(value) for name, value in metrics.items()}


class SpanObjective(TaskObjective):
    """The mean of two losses over the tokens, one for start and one for end (run_squad.py)."""

    DATA = SpanData
    HUGGING_FACE_CLASS = QUESTION_ANSWERING
    HUB_TASK = "question-answering"
    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "examples", "accuracy": "examples"}
    token_outputs = ("start_logits", "end_logits")

    @staticmethod
    def model(config: EncoderConfig, num_labels: int, seed: int, head: Head) -> keras.Model:
        """Returns a classifier with two logits for each token, without dropout (run_squad.py)."""
        return BertTokenClassifier(config, 2, seed, head, head_dropout=0.0)

    def logits(
        self, model: keras.Model, features: Features, dropout_seed: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns the logits of the answer's first and last token, float32 [B, L] each."""
        start_logits, end_logits = ops.unstack(model(features, dropout_seed=dropout_seed), axis=-1)
        return start_logits, end_logits

    def sums_of(self, logits: tuple[Tensor, Tensor], features: Features) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of exactly right answers."""
        starts, ends = logits
        rows = example_weights(features)
        start, end = features["start_positions"], features["end_positions"]
        loss = (cross_entropy(starts, start) + cross_entropy(ends, end)) / 2.0
        both_right = is_correct(starts, start) * is_correct(ends, end)
        return {
            "cross_entropy": ops.sum(rows * loss),
            "accuracy": ops.sum(rows * both_right),
        }

    def outputs_of(self, logits: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """Returns `start_logits` and `end_logits` float32 [B, L]."""
        start_logits, end_logits = logits
        return {"start_logits": start_logits, "end_logits": end_logits}

    @classmethod
    def signatures(cls, graph: "TaskGraph") -> dict[str, Any]:
        """Returns a function of the ids of windows, which `text_models.TextModel` makes."""
        from beambert.trainer.tasks.graph import traced

        def find(*ids: Tensor) -> dict[str, Tensor]:
            starts, ends = ops.unstack(graph.model(dict(zip(ID_INPUTS, ids, strict=True))), axis=-1)
            return {"start_logits": starts, "end_logits": ends}

        length = graph.text_features.max_seq_length
        return {"serving_default": traced(find, *cls.id_specs(length))}
