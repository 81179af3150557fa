"""Questions about paragraphs as the training needs them, and the scores of answers on dev."""

from collections.abc import Callable, Mapping

import numpy as np

from beambert.pipelines.model_inputs.answers import DecodingParameters, SquadPredictions, decode
from beambert.pipelines.model_inputs.features import TaskFeatures, span_features
from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.model_inputs.windows import (
    WindowParameters,
    Windows,
    lost_answers,
    make_windows,
)
from beambert.pipelines.tasks.feature_folder import TaskFeatureFiles
from beambert.pipelines.tasks.squad_scoring import score
from beambert.pipelines.tasks.task import DEV, TRAIN, Task
from beambert.pipelines.tokenizers.encoding import make_offset_tokenizer
from beambert.trainer.finetuning.data import TaskData


class SpanData(TaskData):
    """The examples of SQuAD; an input holds a question and a window of its context."""

    is_pair = True

    def __init__(
        self, task: Task, data_dir: str, tell: Callable[[str], None], skip_bad_rows: bool = False
    ):
        """Reads the splits train and dev; see `TaskData`.

        It also reports a v2.0 task without unanswerable questions in train.
        """
        super().__init__(task, data_dir, tell, skip_bad_rows)
        if task.allows_no_answer and not any(
            example.is_impossible for example in self._examples[TRAIN]
        ):
            tell(
                f"{self._read.files[TRAIN]}: no question is marked as impossible, so the model "
                "cannot learn when to give no answer; the task squad1.1 always gives one"
            )

    def tokenize(self, text_features: TextFeatures, made: TaskFeatureFiles | None = None) -> None:
        """Makes the features of both splits, or reads those of train.

        The windows of dev are always made, because decoding reads answers off them.
        """
        tokenizer = make_offset_tokenizer(text_features.vocabulary, text_features.do_lower_case)
        parameters = WindowParameters.of_length(text_features.max_seq_length)

        def windows_of(split: str) -> Windows:
            return make_windows(self._examples[split], tokenizer, parameters)

        self._dev_windows = windows_of(DEV)
        self._features = {
            TRAIN: made.read(TRAIN) if made else span_features(windows_of(TRAIN)),
            DEV: span_features(self._dev_windows),
        }

    def notes(self) -> list[str]:
        """Returns a sentence on the answers of dev that no tokens match exactly, if any."""
        lost = lost_answers(self._examples[DEV], self._dev_windows)
        if not lost:
            return []
        return [
            f"dev: {len(lost):,} of {self.counts[DEV]:,} questions have no answer that consists of "
            f"whole tokens of one window, and cannot be answered exactly; the first is "
            f"{lost[0].id!r}"
        ]

    def features(self, split: str) -> TaskFeatures:
        """Returns the model's inputs for a split, one row for each window."""
        return self._features[split]

    def _decode(self, outputs: Mapping[str, np.ndarray]) -> SquadPredictions:
        return decode(
            self._examples[DEV],
            self._dev_windows,
            outputs["start_logits"],
            outputs["end_logits"],
            self.task.allows_no_answer,
            DecodingParameters(),
        )

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the metrics of dev as shares, and those of the official scorer in per cent."""
        predictions = self._decode(outputs)
        return self._scores(predictions.answers, predictions.null_odds or None)

    def prediction_files(self, outputs: Mapping[str, np.ndarray]) -> dict[str, str]:
        """Returns the contents of the files for the official scorers, by file name."""
        return self._decode(outputs).files()

    @property
    def without_model(self) -> str:
        """What is predicted for the baseline, in words."""
        return "no answer to any question"

    def baseline(self) -> dict[str, float]:
        """Returns the metrics for giving no answer to any question."""
        return self._scores({question.id: "" for question in self._examples[DEV]})

    def _scores(
        self, answers: Mapping[str, str], null_odds: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        found = score(self._examples[DEV], answers, self.task.allows_no_answer, null_odds)
        metrics = {"squad_f1": found.f1.mean(), "exact_match": found.exact.mean()}
        metrics |= {f"official_{name}": value for name, value in found.metrics.items()}
        return {name: float(value) for name, value in metrics.items()}
