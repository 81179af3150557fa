"""Decides what the next run is: an unfinished one, or a new one for what has been delivered.

First come the checks of what a step would refuse, before anything is spent; then the plan.
"""

import contextlib
import time
from collections.abc import Iterator

from beambert import io
from beambert.config import read_settings
from beambert.deploy.retraining.runs import (
    BEAM_SECTIONS,
    CLASSIFIER,
    ENCODER,
    EVALUATION,
    FIRST,
    FURTHER,
    RECORDS,
    SERVING,
    VOCAB,
    Retraining,
    RetrainingRun,
    beam_flags,
    command,
    next_run,
    records_job,
    vocabulary_command,
    vocabulary_job,
)
from beambert.errors import InputError
from beambert.folders import MARKER_FILE, BusyError
from beambert.pipelines import create_pretraining_data, create_vocabulary, evaluate
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.reading import split_path
from beambert.pipelines.tasks.task import DEV, TRAIN
from beambert.pipelines.vocabulary_learning.job import VocabularyJob
from beambert.process import loading
from beambert.trainer.commands import finetune, pretrain

# The folder under which Vertex AI mounts buckets.
MOUNTED = "/gcs/"
# Only the machines that train have the package of a tracker.
_OF_TRAINERS = "--tracker="


def check_values(config: Retraining) -> None:
    """Refuses flags that a step would refuse, or after which the run could not go on.

    Raises:
      InputError: a value cannot be used; the message names its section.
    """
    if "init" in config.pretrain or "init" in config.pretrain.get(FURTHER, {}):
        # It would stand in the place of the published encoder, and each run forget the others.
        raise InputError(
            "--config: pretrain.init: further runs continue from the published encoder; move it to "
            "[pretrain.first]"
        )
    if "recipe" in config.pretrain and "model" in config.pretrain.get(FIRST, {}):
        raise InputError(
            "--config: pretrain.recipe: further runs would refuse it for an encoder of another "
            "model; move it to [pretrain.first]"
        )
    if config.vocab is not None:
        with _of_section(VOCAB):
            parser = create_vocabulary.build_parser()
            flags = vocabulary_command(config)[1:]
            read_settings(VocabularyJob, parser.parse_known_args(flags)[0])
    earlier = f"{config.workspace}/runs/000001"
    for run in (next_run(config, (), 1, 1), next_run(config, [earlier], 2, 1)):
        records, encoder, classifier, evaluation = (
            [flag for flag in command(step, config, run)[1:] if not flag.startswith(_OF_TRAINERS)]
            for step in (RECORDS, ENCODER, CLASSIFIER, EVALUATION)
        )
        with _of_section("data"):
            parser = create_pretraining_data.build_parser()
            read_settings(PretrainingDataJob, parser.parse_known_args(records)[0])
        with _of_section("pretrain"):
            pretrain.check_values(encoder)
        with _of_section("finetune"):
            finetune.check_values(classifier)
        with _of_section("evaluate"):
            evaluate.parse(evaluation)


@contextlib.contextmanager
def _of_section(section: str) -> Iterator[None]:
    """Has errors name a section of the configuration."""
    try:
        yield
    except InputError as error:
        raise InputError(f"--config: {section}: {error}") from error


def check_task(config: Retraining) -> None:
    """Refuses a task without its examples before the encoder is trained, which takes days.

    Raises:
      InputError: a file of the task is missing.
    """
    folder = str(config.finetune["data_dir"])
    for split in (TRAIN, config.evaluate.get("split", DEV)):
        with _of_section("finetune"):
            split_path(find_task(config.finetune["task"]), folder, split)


def plan(config: Retraining, is_dry: bool = False) -> RetrainingRun | None:
    """Returns the run to do: an unfinished one, or a new one for new files.

    Args:
      config: configuration of the retraining.
      is_dry: True to look for no job at work.

    Returns:
      the run, or None if finished runs have taken all files.

    Raises:
      BusyError: a job on Dataflow that an earlier start has sent is still at work. What it makes
        counts, and nothing may be deleted under it.
      InputError: a step would refuse its flags, the task is missing, or the corpus cannot be
        listed.
    """
    from beambert.deploy.retraining import workspace

    check_values(config)
    history = workspace.read_history(config.workspace)
    if history.open:
        if workspace.is_done(RECORDS, history.open):
            check_task(config)
            return history.open
        if not is_dry:
            _check_no_job_is_at_work(config, history.open)
    patterns = [each for globs in config.sources.values() for each in globs] or config.input
    if not any(map(io.match_files, patterns)):
        print(f"no file matches {', '.join(patterns)} yet")
        return None
    with loading():
        from beambert.pipelines.input_files import match_inputs, match_sources
        from beambert.pipelines.pretraining.plan import new_inputs
        from beambert.pipelines.running import beam_options
    for section in BEAM_SECTIONS:
        with _of_section(section):
            beam_options(beam_flags(section, getattr(config, section)))  # refuses unknown flags
    try:
        inputs = match_sources(config.sources) if config.sources else match_inputs(config.input)
    except InputError as error:
        raise InputError(f"--config: {error}") from error
    named = [file.path for each in config.leave_out for file in io.match_files(each)]
    left_out = set(map(io.absolute, named))
    number = history.last if history.open else history.last + 1
    new = new_inputs(
        [file for file in inputs if file.path not in left_out],
        [f"{run}/{RECORDS}" for run in (*history.published, *history.refused)],
        f"{config.workspace}/runs/{number:06d}",
    )
    if not new:
        return None
    if time.time() - max(file.modified for file in new) < 60 * config.settle_minutes:
        print(f"the newest file is younger than {config.settle_minutes:g} minutes; more may come")
        return None
    check_task(config)
    others = left_out & {file.path for file in inputs}
    run = next_run(config, history.published, number, len(new), sorted(others))
    for folder in filter(None, (run.encoder, run.served)):
        if not io.exists(f"{folder}/{MARKER_FILE}"):  # before a training that takes days
            raise InputError(
                f"{folder}: is gone, but the next run continues from it; put it back, or delete "
                f"the newest folder of {config.workspace}/{SERVING}, to go on from the one before"
            )
    return run


def _check_no_job_is_at_work(config: Retraining, run: RetrainingRun) -> None:
    """Refuses to go on with a run while a job that makes its records or vocabulary is at work.

    A start that is killed leaves its job at work on Dataflow. It would write the same files.

    Raises:
      BusyError: there is such a job.
      InputError: Dataflow doesn't tell.
    """
    from beambert.deploy import google_cloud

    for name in filter(None, (vocabulary_job(config), records_job(config, run))):
        project, region = str(config.data.get("project")), str(config.data.get("region"))
        remedy = "nothing was changed; correct the access and start again"
        what = f"Dataflow doesn't tell whether the job {name} is still at work"
        with google_cloud.service_errors(run.path, what, remedy):
            found = google_cloud.jobs_on_dataflow(project, region, name=name)
        if live := [job.id for job in found if job.name == name]:
            raise BusyError(
                f"{run.path}: the Dataflow job {live[0]} of an earlier start is at work; start "
                "again after its end, or cancel it on Dataflow's page to begin again"
            )
