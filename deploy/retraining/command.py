"""`beambert retrain`: trains on the new files of a corpus and serves the model if it is better.

Each step runs a command of BeamBERT in a process of its own and records its end in the workspace.
So the next start repeats at most the step that was interrupted. The served model changes only in
the last step, and only if the new model is better on the same examples.
"""

import dataclasses
import datetime
import functools
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from beambert.config import Settings, read_settings, setting, settings_parser
from beambert.console import counted, duration
from beambert.deploy.retraining.planning import plan
from beambert.deploy.retraining.runs import (
    CLASSIFIER,
    ENCODER,
    EVALUATION,
    PUBLISHED,
    RECORDS,
    REFUSED,
    SERVING,
    STEPS,
    VOCAB,
    Retraining,
    RetrainingRun,
    RunResult,
    command,
    is_needed,
    vocabulary_command,
)
from beambert.errors import InputError
from beambert.folders import BLESSED, NOT_BLESSED, REPORT_FILE, BusyError, lock_held
from beambert.model_files import CHECKPOINTS_FOLDER
from beambert.process import run_apart

EXAMPLES = """examples:
  # print the steps without doing them
  beambert retrain --config=deploy/retrain.toml --dry_run

  # do all steps on this machine; the same command continues after an interruption
  beambert retrain --config=deploy/retrain.toml

The exit status is 0 if a model was served or refused, or if there is nothing new. It is 2 for an
error that a person must correct, and 75 while another run is at work.
"""
# This is EX_TEMPFAIL of sysexits.h, which asks the caller to try again later.
STATUS_OF_BUSY = 75


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetrainSettings(Settings):
    """The settings of the command."""

    config: str = setting(
        metavar="FILE", help="configuration like deploy/retrain.toml, local or on gs://"
    )
    dry_run: bool = setting(False, help="print the steps without doing them")


build_parser = functools.partial(
    settings_parser,
    RetrainSettings,
    "retrain",
    "Trains a model on the new files of a corpus and serves it if it is better.",
    EXAMPLES,
)


def _run_step(step: str, config: Retraining, run: RetrainingRun) -> None:
    """Does a step of a run in another process."""
    if step == SERVING:
        _publish(config, run)
        return
    if step == RECORDS and _lacks_vocabulary(config):
        _run(VOCAB, vocabulary_command(config))
    _run(step, command(step, config, run))


def _lacks_vocabulary(config: Retraining) -> bool:
    from beambert import io

    return config.vocab is not None and not io.exists(config.vocab_file)


def _publish(config: Retraining, run: RetrainingRun) -> None:
    """Exports a blessed model, and writes the result of the run."""
    from beambert import io
    from beambert.deploy.retraining import workspace

    evaluation = run.folder(EVALUATION)
    is_blessed = io.exists(f"{evaluation}/{BLESSED}")
    reasons = io.read_text(f"{evaluation}/{BLESSED if is_blessed else NOT_BLESSED}")
    version = None
    if is_blessed:
        greatest = workspace.read_history(config.workspace).greatest
        version = workspace.choose_version(f"{config.workspace}/{SERVING}", run, greatest)
        if not io.exists(f"{config.workspace}/{SERVING}/{version}"):
            _run(SERVING, [*command(SERVING, config, run), f"--version={version}"])
    result = RunResult(
        outcome=REFUSED if version is None else PUBLISHED,
        version=version,
        reasons=tuple(reasons.splitlines()),
        finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    workspace.write_json(f"{run.path}/{workspace.RESULT_FILE}", dataclasses.asdict(result))
    for step in (ENCODER, CLASSIFIER):  # Later runs go on from the models, not from checkpoints.
        io.delete(f"{run.folder(step)}/{CHECKPOINTS_FOLDER}")
    print(f"{run.path}: {result.outcome}: {'; '.join(result.reasons)}")
    if version is None:
        print(f"the served model is unchanged; see {evaluation}/{REPORT_FILE}")
    else:
        print(f"{config.workspace}/{SERVING}/{version}: is the served version now")


def _run(step: str, arguments: Sequence[str]) -> None:
    """Runs a command of BeamBERT to its end.

    Raises:
      InputError: the command failed, after printing its own message.
    """
    print(f"\n[{step}] $ beambert {shlex.join(arguments)}", flush=True)
    started = time.monotonic()
    if status := run_apart(arguments):
        # Nobody but an operator can change a delivered file.
        remedy = ", or name a file that causes it in leave_out" if step == RECORDS else ""
        raise InputError(
            f"{step}: the step failed (status {status}) and the served model is unchanged; correct "
            f"the error above{remedy}, and give the same command again, which continues"
        )
    print(f"[{step}] done in {duration(time.monotonic() - started)}", flush=True)


def retrain(
    config: Retraining, elsewhere: Mapping[str, Callable[[str, RetrainingRun], None]] | None = None
) -> None:
    """Does a whole run, or prints that there is nothing to do.

    Args:
      config: configuration of the retraining.
      elsewhere: step -> function that does it on another machine, of the steps that are not done on
        this one; None for none.

    Raises:
      InputError: a step failed, or another run is at work.
    """
    from beambert.deploy.retraining import workspace

    with lock_held(f"{config.workspace}/LOCK", config.workspace) as lock:
        run = plan(config)
        if run is None:
            print(f"{config.workspace}: nothing new")
            return
        workspace.begin(run)
        before = [step for step in STEPS if is_needed(step, run) and workspace.is_done(step, run)]
        print(_describe(run) + (f"; steps done already: {', '.join(before)}" if before else ""))
        for step in STEPS:
            if not is_needed(step, run) or workspace.is_done(step, run):
                continue
            lock.check()
            if elsewhere and step in elsewhere:
                elsewhere[step](step, run)
            else:
                _run_step(step, config, run)


def _describe(run: RetrainingRun) -> str:
    what = f"continues from {run.encoder}" if run.encoder else "first run"
    return f"{run.path}: {counted(run.new_files, 'new file')}, {what}"


def _show(config: Retraining) -> None:
    """Prints the commands of the next run."""
    run = plan(config, is_dry=True)
    if run is None:
        print(f"{config.workspace}: nothing new")
        return
    print(_describe(run))
    if _lacks_vocabulary(config):
        print(f"[{VOCAB}] beambert {shlex.join(vocabulary_command(config))}")
    for step in STEPS:
        if is_needed(step, run):
            print(f"[{step}] beambert {shlex.join(command(step, config, run))}")


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: there is an error that a person must correct.
      SystemExit: another run is at work.
    """
    flags = read_settings(RetrainSettings, build_parser().parse_args(list(argv)))
    from beambert.deploy.retraining import workspace

    config = workspace.read_config(flags.config)
    try:
        if flags.dry_run:
            _show(config)
        else:
            retrain(config)
    except BusyError as error:
        print(f"beambert retrain: {error}", file=sys.stderr)
        raise SystemExit(STATUS_OF_BUSY) from None
