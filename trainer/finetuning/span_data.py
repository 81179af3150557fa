"""Questions on paragraphs, as the training needs them."""

from collections.abc import Callable, Mapping

import numpy as np

from beambert.pipelines.features.contract import TaskFeatureFiles
from beambert.pipelines.model_inputs.answers import DecodingParameters, SquadPredictions, decode
from beambert.pipelines.model_inputs.examples import TaskFeatures, span_features
from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.model_inputs.windows import WindowParameters, Windows, make_windows
from beambert.pipelines.tasks.declarations import DEV, TRAIN, Task
from beambert.pipelines.tasks.files import split_path
from beambert.pipelines.tasks.squad import read_questions
from beambert.pipelines.tasks.squad_scoring import score
from beambert.pipelines.wordpiece.offsets import OffsetTokenizer
from beambert.trainer.finetuning.data import TaskData


class SpanData(TaskData):
    """SQuAD's files; a model's input is a window of a question and a part of its context."""

    def __init__(self, task: Task, data_dir: str, tell: Callable[[str], None]):
        """Reads train and dev.

        Args:
          task: of the kind span.
          data_dir: the folder of its files.
          tell: is told what is amiss: answers that aren't where the file says, no question
            without an answer in train where there may be some.

        Raises:
          InputError: they can't be read.
        """
        self.task = task
        self.labels: list[str] = []
        self.is_pair = True
        self.files = {split: split_path(task, data_dir, split) for split in (TRAIN, DEV)}
        read = {
            split: read_questions(path, task.allows_no_answer) for split, path in self.files.items()
        }
        for sentence in (note for file in read.values() for note in file.notes()):
            tell(sentence)
        if task.allows_no_answer and not any(of.is_impossible for of in read[TRAIN].questions):
            tell(
                f"{self.files[TRAIN]}: no question is impossible, so that a model learns little of "
                "when to give no answer; the task squad1.1 always gives one."
            )
        # Every question of dev is asked; an answer that can't be found can't be learnt.
        self._questions = {TRAIN: read[TRAIN].learnable(), DEV: list(read[DEV].questions)}
        # As run_squad.py, whose epochs are over questions, not windows.
        self.counts = {split: len(questions) for split, questions in self._questions.items()}

    def tokenize(self, text_features: TextFeatures, made: TaskFeatureFiles | None = None) -> None:
        """Makes the windows of both splits; those of dev always, as answers are read off them."""
        tokenizer = OffsetTokenizer(text_features.vocabulary, text_features.do_lower_case)
        parameters = WindowParameters.of_length(text_features.max_seq_length)

        def windows_of(split: str) -> Windows:
            return make_windows(self._questions[split], tokenizer, parameters)

        self._dev_windows = windows_of(DEV)
        self._features = {
            TRAIN: made.read(TRAIN) if made else span_features(windows_of(TRAIN)),
            DEV: span_features(self._dev_windows),
        }

    def features(self, split: str) -> TaskFeatures:
        """Returns the model's inputs, a window each."""
        return self._features[split]

    def _decode(self, outputs: Mapping[str, np.ndarray]) -> SquadPredictions:
        return decode(
            self._questions[DEV],
            self._dev_windows,
            outputs["start_logits"],
            outputs["end_logits"],
            self.task.allows_no_answer,
            DecodingParameters(),
        )

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the metrics of dev as shares, and the official scorer's in per cent."""
        predictions = self._decode(outputs)
        return self._scores(predictions.answers, predictions.null_odds or None)

    def prediction_files(self, outputs: Mapping[str, np.ndarray]) -> dict[str, str]:
        """Returns the files that the official scorers read, by name."""
        return self._decode(outputs).files()

    def baseline(self) -> dict[str, float]:
        """Returns the metrics of never an answer."""
        return self._scores({question.id: "" for question in self._questions[DEV]})

    def _scores(
        self, answers: Mapping[str, str], null_odds: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        found = score(self._questions[DEV], answers, self.task.allows_no_answer, null_odds)
        metrics = {"squad_f1": found.f1.mean(), "exact_match": found.exact.mean()}
        metrics |= {f"official_{name}": value for name, value in found.metrics.items()}
        return {name: float(value) for name, value in metrics.items()}
