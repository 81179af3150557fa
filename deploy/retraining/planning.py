"""Decides what the next run is: an unfinished one, or a new one for what has been delivered."""

import datetime
import sys
import time
from typing import TYPE_CHECKING

from beambert.console import counted
from beambert.deploy.retraining.checks import check_task, check_values, check_vocabulary
from beambert.deploy.retraining.runs import (
    BEAM_SECTIONS,
    RECORDS,
    Retraining,
    RetrainingRun,
    beam_flags,
    next_run,
)
from beambert.errors import InputError
from beambert.loading import loading
from beambert.pipelines.storage.claims import MARKER_FILE

if TYPE_CHECKING:
    from beambert.deploy.retraining.deliveries import Deliveries


def plan(
    config: Retraining, until: float | None = None, is_dry: bool = False
) -> RetrainingRun | None:
    """Returns the run to do: an unfinished one, or a new one for new files.

    A job on Dataflow that an earlier start has left at work is awaited: what it makes counts, and
    nothing may be deleted under it.

    Args:
      config: configuration of the retraining.
      until: time in seconds since 1970 from which on files are left out; None to take all.
      is_dry: True to wait for nothing.

    Returns:
      the run, or None if finished runs have taken all files.

    Raises:
      InputError: a step would refuse its flags, the vocabulary or the task is missing, the corpus
        cannot be listed, a manifest is wrong and there is nothing else, or the served versions are
        not as runs leave them.
    """
    from beambert.deploy.retraining import deliveries, live_jobs, workspace
    from beambert.pipelines.storage.tensorflow_files import exists

    check_values(config)
    check_vocabulary(config, is_dry)
    history = workspace.read_history(config.workspace)
    workspace.check_serving(config.workspace, history)
    _report_silence(config, history.ended)
    if history.open and not is_dry and not workspace.is_done(RECORDS, history.open):
        live_jobs.await_records(config, history.open)
    if history.open and workspace.is_done(RECORDS, history.open):
        check_task(config, is_dry)
        return history.open
    left_out = deliveries.find_left_out(config.leave_out)
    found = deliveries.read_deliveries(config.manifests, left_out, time.time(), until)
    if not _are_complete(config, found, until):
        return None
    with loading():
        from beambert.pipelines.files.input_files import match_inputs, match_sources
        from beambert.pipelines.jobs.running import beam_options
        from beambert.pipelines.pretraining_data.since import new_inputs
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
        if file.path not in left_out
        and (not config.manifests or file.path in found.files)
        and (until is None or file.modified < until)
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
    check_task(config, is_dry)
    others = {file.path for file in inputs} - {file.path for file in taken}
    run = next_run(config, history.published, number, len(new), sorted(others))
    for folder in filter(None, (run.encoder, run.served)):
        if not exists(f"{folder}/{MARKER_FILE}"):  # before a training that takes days
            raise InputError(
                f"{folder}: is gone, but the next run continues from it; put it back, or serve the "
                "version before it with --rollback"
            )
    return run


def _are_complete(config: Retraining, found: "Deliveries", until: float | None) -> bool:
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
        which = "of the days before --until" if until else "yet"
        print(f"no manifest matches {', '.join(config.manifests)} {which}")
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


def _report_silence(config: Retraining, ended: str) -> None:
    """Reports that no run has ended for a long time, which an alert sends on."""
    if not (config.alert_days and ended):
        return
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(ended)
    if age.total_seconds() > 24 * 3600 * config.alert_days:
        told = f"{config.workspace}: no run has ended since {ended}, {age.days} days ago"
        print(f"{told}; look for a delivery or a run that fails", file=sys.stderr, flush=True)


def parse_date(text: str) -> float:
    """Returns the beginning of a day in UTC, in seconds since 1970.

    Raises:
      InputError: the text is no date.
    """
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"--until={text}: is no date; give one such as 2026-03-01") from error
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp()
