"""The baseline: an earlier evaluation that a new model must not fall behind."""

import dataclasses
import pathlib
from typing import Any

from beambert.errors import InputError
from beambert.pipelines.evaluation import predictions
from beambert.pipelines.evaluation.blessing import Requirement, of_baseline
from beambert.pipelines.evaluation.folder import MARKERS, PREDICTIONS_FOLDER, read_metrics
from beambert.pipelines.evaluation.intervals import change_interval
from beambert.pipelines.evaluation.measures import Measures, measures_of
from beambert.pipelines.evaluation.outcomes import OUTCOMES, Outcomes
from beambert.pipelines.storage import claims
from beambert.pipelines.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class Baseline:
    """The model of an earlier evaluation on the same examples.

    Attributes:
      folder: folder of the evaluation.
      model: absolute path of the model.
      weights_sha256: SHA-256 of the model's weights.
      measures: metrics by which its predictions are scored.
      outcomes: outcomes of its predictions, in the order of the examples.
    """

    folder: str
    model: str
    weights_sha256: str
    measures: Measures
    outcomes: Outcomes

    def requirement(self, metric: str, min_change: float) -> Requirement:
        """Returns the requirement that a metric is better than this model's by `min_change`."""
        return of_baseline(metric, self.measures.scores(self.outcomes)[metric], min_change)

    def describe(self, measures: Measures, outcomes: Outcomes) -> dict[str, Any]:
        """Returns the scores of this model and their changes in a new one, rounded.

        Args:
          measures: metrics by which the new model is scored.
          outcomes: outcomes of the new model.
        """
        old, new = self.measures.scores(self.outcomes), measures.scores(outcomes)
        low, high = change_interval(
            self.outcomes,
            outcomes,
            measures.names[0],
            (self.measures.positive, measures.positive),
        )
        return {
            "evaluation": claims.absolute(self.folder),
            "model": self.model,
            "weights_sha256": self.weights_sha256,
            "scores": {name: round(score, 6) for name, score in old.items()},
            "changes": {name: round(new[name] - old[name], 6) for name in old},
            # The interval is that of the first metric, over the same examples.
            "change_interval_95": [round(low, 6), round(high, 6)],
        }


def open_baseline(path: str, task: Task, data_sha256: str, examples: int) -> Baseline:
    """Reads an earlier evaluation.

    Args:
      path: its folder, on this machine.
      task: task of the new evaluation.
      data_sha256: SHA-256 of the file that the new evaluation reads.
      examples: number of examples in the new evaluation.

    Raises:
      InputError: the folder holds no finished evaluation, or one on another task or on other
        examples.
    """
    folder = pathlib.Path(path)
    metrics = read_metrics(path)
    if metrics is None or not any((folder / marker).exists() for marker in MARKERS):
        raise InputError(
            f"--baseline={path}: holds no finished evaluation; name the --output of `beambert "
            "evaluate` of the model to compare with"
        )
    if metrics["task"] != task.name:
        raise InputError(
            f"--baseline={path}: evaluated the task {metrics['task']}, not {task.name}; name an "
            f"evaluation on {task.name}"
        )
    if (metrics.get("data_sha256"), metrics["examples"]) != (data_sha256, examples):
        raise InputError(
            f"--baseline={path}: evaluated other examples than these; evaluate that model "
            f"({metrics['model']}) on the same file first"
        )
    try:
        records = predictions.read_records(folder / PREDICTIONS_FOLDER)
    except Exception as error:  # from TensorFlow if a file is damaged, an OSError if it is missing
        raise InputError(
            f"--baseline={path}: its predictions cannot be read; evaluate that model "
            f"({metrics['model']}) again"
        ) from error
    if len(records) != examples:
        raise InputError(
            f"--baseline={path}: has {len(records)} predictions for {examples} examples; evaluate "
            f"that model ({metrics['model']}) again"
        )
    return Baseline(
        path,
        metrics["model"],
        metrics["weights_sha256"],
        measures_of(task, metrics["labels"]),
        OUTCOMES[task.kind].of_records(records),
    )
