"""Questions on paragraphs, as the training needs them."""

from collections.abc import Callable, Mapping

import numpy as np

from pipelines.feature_records import TaskFeatureFiles
from pipelines.offsets import OffsetTokenizer
from pipelines.squad import describe_places, read_questions
from pipelines.squad_decoding import DecodingParameters, SquadPredictions, decode
from pipelines.squad_features import WindowParameters, Windows, make_windows
from pipelines.squad_scoring import score
from pipelines.task_features import TaskFeatures, span_features
from pipelines.task_files import split_path
from pipelines.tasks import DEV, TRAIN, Task
from pipelines.text_features import TextFeatures
from trainer.task_data import TaskData


class SpanData(TaskData):
    """SQuAD's files; a model's input is a window of a question and a part of its context."""

    def __init__(self, task: Task, data_dir: str, on_bad_row: Callable[[str], None]):
        """Reads train and dev.

        Args:
          task: of the kind span.
          data_dir: the folder of its files.
          on_bad_row: is told of answers that aren't where the file says.

        Raises:
          InputError: they can't be read.
        """
        self.task = task
        self.labels: list[str] = []
        self.is_pair = True
        self.files = {split: split_path(task, data_dir, split) for split in (TRAIN, DEV)}
        read = {split: read_questions(path) for split, path in self.files.items()}
        for split, file in read.items():
            for sentence in describe_places(file, self.files[split]):
                on_bad_row(sentence)
        # Every question of dev is asked; an answer that can't be found can't be learnt.
        self._questions = {TRAIN: read[TRAIN].learnable(), DEV: list(read[DEV].questions)}
        self._has_impossible = read[TRAIN].has_impossible or read[DEV].has_impossible
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
            self._has_impossible,
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
        questions = self._questions[DEV]
        found = score(questions, answers)
        metrics = {"squad_f1": found.f1.mean(), "exact_match": found.exact.mean()}
        official = dict(found.metrics)
        if null_odds:
            # The odds decide nothing but these: with them the scorer empties answers, too.
            with_odds = score(questions, answers, null_odds).metrics
            official |= {n: value for n, value in with_odds.items() if n.startswith("best_")}
        metrics |= {f"official_{name}": value for name, value in official.items()}
        return {name: float(value) for name, value in metrics.items()}
