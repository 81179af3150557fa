"""The commands that run Beam pipelines, or can, as functions.

Each takes the job of its transform and, if the work is not for this process, Beam's options. Only
the call of a function loads its libraries.
"""

import importlib
from typing import TYPE_CHECKING, Any, TypeVar

from beambert.process import loading, logging_restored

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from beambert.pipelines.pretraining.job import PretrainingDataJob
    from beambert.pipelines.task_jobs import EvaluationJob, FeaturesJob, PredictionJob
    from beambert.pipelines.verification.job import VerificationJob
    from beambert.pipelines.vocabulary_learning.job import VocabularyJob

Job = TypeVar("Job")


@logging_restored()
def learn_vocabulary(job: "VocabularyJob", options: "PipelineOptions | None" = None) -> None:
    """Learns a vocabulary from the files of `job.input`, as `beambert vocab` does.

    Args:
      job: the vocabulary to learn.
      options: Beam's options; None for this process.

    Raises:
      InputError: the output exists and is of another job, or an input cannot be used.
    """
    _run("vocabulary_learning.run", "create_vocabulary", job, options)


@logging_restored()
def create_pretraining_data(
    job: "PretrainingDataJob", options: "PipelineOptions | None" = None
) -> None:
    """Makes records of the files of `job.input`, as `beambert data` does.

    Args:
      job: the records to make.
      options: Beam's options; None for this process.

    Raises:
      InputError: a folder holds something else, or an input cannot be used.
    """
    _run("pretraining.run", "create_pretraining_data", job, options)


@logging_restored()
def verify_records(
    job: "VerificationJob", options: "PipelineOptions | None" = None
) -> dict[str, Any]:
    """Verifies records, as `beambert verify` does, but raises nothing for faults in them.

    Args:
      job: the records to verify.
      options: Beam's options; None for this process.

    Returns:
      the content of verification.json; `faults` is the number of faults.

    Raises:
      InputError: an input or the output cannot be used.
    """
    return _run("verification.run", "verify_records", job, options)


@logging_restored()
def create_task_features(job: "FeaturesJob", options: "PipelineOptions | None" = None) -> None:
    """Makes features of a task, as `beambert features` does.

    Args:
      job: the features to make.
      options: Beam's options; None for this process.

    Raises:
      InputError: the folder holds something else, or a file cannot be used.
    """
    _run("features", "create_task_features", job, options)


@logging_restored()
def evaluate(job: "EvaluationJob", options: "PipelineOptions | None" = None) -> dict[str, Any]:
    """Evaluates a fine-tuned model and decides its blessing, as `beambert evaluate` does.

    Args:
      job: the evaluation.
      options: Beam's options; None for this process.

    Returns:
      the content of metrics.json; `overall` has the scores and `blessed` the decision.

    Raises:
      InputError: the data, the model, a threshold or a folder cannot be used.
    """
    with loading():
        from beambert.pipelines.evaluation import measures
        from beambert.pipelines.evaluation.measures import metric_names
    measures.check_thresholds(job.thresholds, metric_names(job.task))
    return _run("evaluation.run", "evaluate", job, options)


@logging_restored()
def predict(job: "PredictionJob", options: "PipelineOptions | None" = None) -> dict[str, int]:
    """Answers the texts of the files of `job.input`, as `beambert predict` does.

    Args:
      job: the model, the texts and the folder for the answers.
      options: Beam's options; None for this process.

    Returns:
      the numbers of `answers` and `rejects`.

    Raises:
      InputError: the model, a file or the output folder cannot be used.
    """
    return _run("prediction", "predict", job, options)


def _run(module: str, name: str, job: Job, options: "PipelineOptions | None") -> Any:
    """Loads a module of `beambert.pipelines` and calls one of its functions with a job."""
    with loading():
        run = getattr(importlib.import_module(f"beambert.pipelines.{module}"), name)
    return run(job, _with_runner(options))


def _with_runner(options: "PipelineOptions | None") -> "PipelineOptions":
    """Returns options that name a runner: this process if nobody named another one."""
    from beambert.pipelines.running import beam_options

    if options is None:
        return beam_options([])
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

    FileSystems.set_options(options)
    if options.view_as(StandardOptions).runner is None:
        options = PipelineOptions.from_dictionary(options.get_all_options(drop_default=True))
        options.view_as(StandardOptions).runner = "FnApiRunner"
    return options
