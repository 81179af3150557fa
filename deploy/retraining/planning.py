"""Decides what the next run is: an unfinished one, or a new one for what has been delivered.

First come the checks of what a step would refuse, before anything is spent; then the deliveries;
then the plan. A delivery is a set of files of text and its manifest, which is written last:
`{"files": [{"path": …, "bytes": …}, …]}`. Its paths are full, or relative to its folder. A run
takes the files that correct manifests name. It reports a wrong manifest and leaves its files out,
so that one bad delivery doesn't stop the others.
"""

import dataclasses
import os
import sys
import time
from collections.abc import Sequence

from beambert import io
from beambert.config import read_settings
from beambert.console import counted
from beambert.deploy.retraining.runs import (
    BEAM_SECTIONS,
    CLASSIFIER,
    ENCODER,
    EVALUATION,
    FIRST,
    FURTHER,
    RECORDS,
    VOCAB,
    Retraining,
    RetrainingRun,
    beam_flags,
    command,
    next_run,
    vocabulary_command,
)
from beambert.errors import InputError
from beambert.folders import MARKER_FILE
from beambert.io import absolute, parse_object
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
        try:
            parser = create_vocabulary.build_parser()
            flags = vocabulary_command(config)[1:]
            read_settings(VocabularyJob, parser.parse_known_args(flags)[0])
        except InputError as error:
            raise InputError(f"--config: {VOCAB}: {error}") from error
    earlier = f"{config.workspace}/runs/000001"
    for run in (next_run(config, (), 1, 1), next_run(config, [earlier], 2, 1)):
        arguments = {
            step: [each for each in command(step, config, run)[1:] if _is_checked(each)]
            for step in (RECORDS, ENCODER, CLASSIFIER, EVALUATION)
        }
        try:
            section = "data"
            parser = create_pretraining_data.build_parser()
            read_settings(PretrainingDataJob, parser.parse_known_args(arguments[RECORDS])[0])
            section = "pretrain"
            pretrain.check_values(arguments[ENCODER])
            section = "finetune"
            finetune.check_values(arguments[CLASSIFIER])
            section = "evaluate"
            evaluate.parse(arguments[EVALUATION])
        except InputError as error:
            raise InputError(f"--config: {section}: {error}") from error


def _is_checked(argument: str) -> bool:
    return not argument.startswith(_OF_TRAINERS)


def check_task(config: Retraining) -> None:
    """Refuses a task without its examples before the encoder is trained, which takes days.

    Raises:
      InputError: a file of the task is missing.
    """
    folder = str(config.finetune["data_dir"])
    for split in (TRAIN, config.evaluate.get("split", DEV)):
        try:
            split_path(find_task(config.finetune["task"]), folder, split)
        except InputError as error:
            raise InputError(f"--config: finetune: {error}") from error


@dataclasses.dataclass(frozen=True)
class Deliveries:
    """What the manifests of a corpus say.

    Attributes:
      files: paths that correct manifests name.
      count: number of correct manifests.
      newest: time at which the newest one was written, in seconds since 1970.
      faults: a sentence for each manifest that is wrong.
    """

    files: frozenset[str] = frozenset()
    count: int = 0
    newest: float = 0.0
    faults: tuple[str, ...] = ()


def read_deliveries(patterns: Sequence[str], left_out: frozenset[str]) -> Deliveries:
    """Reads and checks the manifests of a corpus.

    Args:
      patterns: globs of the manifests.
      left_out: paths of manifests and files that are left out.

    Raises:
      InputError: the manifests cannot be listed.
    """
    files: set[str] = set()
    faults, count, newest = [], 0, 0.0
    for path in (file.path for each in patterns for file in io.match_files(each)):
        if absolute(path) in left_out:
            continue
        try:
            written = io.modified(path)
            named, fault = _check(path, left_out)
        except InputError as error:
            fault = (
                f"manifest, or a file that it names, cannot be read ({error}); correct that, or "
                "delete the manifest and its files"
            )
        if fault:
            faults.append(f"{path}: {fault}")
        else:
            files |= named
            count, newest = count + 1, max(newest, written)
    return Deliveries(frozenset(files), count, newest, tuple(faults))


def _check(path: str, left_out: frozenset[str]) -> tuple[set[str], str | None]:
    """Returns the files that a manifest names, and what is wrong with it."""
    try:
        found = parse_object(io.read_bytes(path))["files"]
        listed = [(os.fspath(each["path"]), int(each["bytes"])) for each in found]
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        return set(), (
            f"manifest is half-written or none ({error}); write it again as "
            '{"files": [{"path": …, "bytes": …}, …]}, or delete it and its files'
        )
    if not listed:
        return set(), "manifest names no file; write it again with its files, or delete it"
    named = set()
    for name, size in listed:
        file = name if "://" in name else os.path.join(os.path.dirname(path), name)
        if absolute(file) in left_out:
            continue
        there = io.size(file)
        if there != size:
            what = "is missing" if there is None else f"has {there} bytes"
            return set(), (
                f"manifest names {file}, which {what}; it should have {size} bytes; "
                "complete the delivery or correct the manifest"
            )
        named.add(absolute(file))
    return named, None


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
      InputError: a step would refuse its flags, the task is missing, the corpus
        cannot be listed, or a manifest is wrong and there is nothing else.
    """
    from beambert.deploy.retraining import live_jobs, workspace
    from beambert.io import exists

    check_values(config)
    history = workspace.read_history(config.workspace)
    if history.open and not is_dry and not workspace.is_done(RECORDS, history.open):
        live_jobs.check_records(config, history.open)
    if history.open and workspace.is_done(RECORDS, history.open):
        check_task(config)
        return history.open
    named = [file.path for each in config.leave_out for file in io.match_files(each)]
    left_out = frozenset(map(absolute, named))
    found = read_deliveries(config.manifests, left_out)
    if not _are_complete(config, found):
        return None
    with loading():
        from beambert.pipelines.input_files import match_inputs, match_sources
        from beambert.pipelines.pretraining.plan import new_inputs
        from beambert.pipelines.running import beam_options
    for section in BEAM_SECTIONS:
        try:
            beam_options(beam_flags(section, getattr(config, section)))  # refuses unknown flags
        except InputError as error:
            raise InputError(f"--config: {section}: {error}") from error
    try:
        inputs = match_sources(config.sources) if config.sources else match_inputs(config.input)
    except InputError as error:
        raise InputError(f"--config: {error}") from error
    _report_strays(found.files - {file.path for file in inputs}, config)
    taken = [
        file
        for file in inputs
        if file.path not in left_out and (not config.manifests or file.path in found.files)
    ]
    number = history.last if history.open else history.last + 1
    finished = [f"{run}/{RECORDS}" for run in (*history.published, *history.refused)]
    new = new_inputs(taken, finished, f"{config.workspace}/runs/{number:06d}")
    waiting = [file.path for file in inputs if file not in taken and file.path not in left_out]
    if config.manifests and waiting:
        print(f"{len(waiting)} files are in no complete delivery yet, such as {waiting[0]}")
    if not new:
        if found.faults:  # somebody must look at it, as it may be what was to be taken
            raise InputError(found.faults[0])
        return None
    check_task(config)
    others = {file.path for file in inputs} - {file.path for file in taken}
    run = next_run(config, history.published, number, len(new), sorted(others))
    for folder in filter(None, (run.encoder, run.served)):
        if not exists(f"{folder}/{MARKER_FILE}"):  # before a training that takes days
            raise InputError(
                f"{folder}: is gone, but the next run continues from it; put it back, or serve the "
                "version before it with --rollback"
            )
    return run


def _are_complete(config: Retraining, found: Deliveries) -> bool:
    """Reports wrong manifests, and returns whether there are deliveries to take.

    Raises:
      InputError: all manifests are wrong.
    """
    if found.faults and not found.count:
        raise InputError(found.faults[0])
    for fault in found.faults:
        print(f"{fault}; was left out", file=sys.stderr, flush=True)
    if not config.manifests:
        return True
    if not found.count:
        print(f"no manifest matches {', '.join(config.manifests)} yet")
        return False
    if time.time() - found.newest < 60 * config.settle_minutes:
        print(f"the last manifest is younger than {config.settle_minutes:g} minutes; more may come")
        return False
    return True


def _report_strays(files: frozenset[str], config: Retraining) -> None:
    """Reports files that manifests name and the corpus doesn't, which would never be taken."""
    key = "data.source" if config.sources else "input"
    if files:
        others = f" and {counted(len(files) - 1, 'other')}" if len(files) > 1 else ""
        print(
            f"{min(files)}{others}: named by a manifest, but no pattern of `{key}` matches; "
            f"was left out; deliver under a name that is taken, or correct `{key}`",
            file=sys.stderr,
            flush=True,
        )
