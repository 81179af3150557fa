"""`beambert retrain`: from new files in a folder or bucket to a new version that is served.

Each step is a command of BeamBERT, run as a process. What is done says so in the workspace, so that
the next start repeats at most the step that was cut; the model that is served changes only in the
last step, and only if the new one is better on the same examples.
"""

import datetime
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from beambert.deploy.retraining import lock
from beambert.deploy.retraining.runs import (
    BEAM_SECTIONS,
    EVALUATION,
    PUBLISHED,
    RECORDS,
    REFUSED,
    SERVING,
    STEPS,
    Retraining,
    Run,
    beam_flags,
    command,
    is_needed,
    next_run,
)
from beambert.pipelines.shared.console import duration, run_main
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.flags import FlagParser
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.storage.claims import BLESSED, NOT_BLESSED, REPORT_FILE

PLAN, RELEASE = "plan", "release"
# What a plan finds, for a scheduler to branch on.
NEW, NOTHING_NEW, BUSY = "new", "nothing_new", "busy"

EXAMPLES = """examples:
  # what would be done
  beambert retrain --config=deploy/retrain.toml --dry_run

  # all of it on this machine; killed, the same command continues
  beambert retrain --config=deploy/retrain.toml

  # one step, as each component of the pipeline on Vertex AI does
  beambert retrain --config=gs://bucket/retrain.toml --step=records

Exit status: 0 for a model that was served, one that was refused, or nothing new; 2 for what a
person must mend; 75 while another run is at work.
"""
# EX_TEMPFAIL of sysexits.h: try again later.
STATUS_OF_BUSY = 75


def build_parser() -> FlagParser:
    """Returns the command's flags."""
    parser = FlagParser(
        prog="beambert retrain",
        description="Takes what is new in a corpus to a model that is served if it is better.",
        examples=EXAMPLES,
    )
    add = parser.add_argument
    add("--config", required=True, metavar="FILE", help="as deploy/retrain.toml, also gs://")
    add("--dry_run", action="store_true", help="say what would be done, and do nothing")
    add(
        "--step",
        choices=(PLAN, *STEPS, RELEASE),
        help="only this step of the run that `--step=plan` began (default: all)",
    )
    add("--holder", help="with --step: whose the lock is")
    add("--outcome_file", metavar="FILE", help=f"gets {NEW}, {NOTHING_NEW} or {BUSY}")
    return parser


def plan(config: Retraining) -> Run | None:
    """Finds the run to do: the one that was cut, or one for new files.

    Returns:
      the run, or None if every file is in a finished run.

    Raises:
      InputError: the corpus can't be listed, or a delivery isn't complete.
    """
    from beambert.deploy.retraining import workspace

    history = workspace.read_history(config.workspace)
    if history.open and workspace.is_done(RECORDS, history.open):
        return history.open
    manifests = workspace.check_manifests(config.manifests)
    if config.manifests and not manifests.count:
        print(f"no manifest yet matches {', '.join(config.manifests)}")
        return None
    if time.time() - manifests.newest < 60 * config.settle_minutes:
        print(f"the last manifest is younger than {config.settle_minutes:g} minutes; more may come")
        return None
    with loading():
        from beambert.pipelines.jobs.input_files import match_inputs
        from beambert.pipelines.jobs.running import beam_options
        from beambert.pipelines.pretraining_data.since import new_inputs
    for section in BEAM_SECTIONS:
        beam_options(beam_flags(section, getattr(config, section)))  # refuses what Beam has not
    inputs = match_inputs(config.input)
    number = history.last if history.open else history.last + 1
    finished = [f"{run}/{RECORDS}" for run in (*history.published, *history.refused)]
    new = new_inputs(inputs, finished, f"{config.workspace}/runs/{number:06d}")
    if not new:
        return None
    return next_run(config, history.published, number, len(new))


def begin(run: Run) -> None:
    """Writes down a planned run, unless it is under way."""
    from beambert.deploy.retraining import workspace

    if not workspace.is_done(RECORDS, run):
        workspace.begin(run)


def run_step(step: str, config: Retraining, run: Run, descriptors: tuple[int, ...] = ()) -> None:
    """Does a step of a run, unless it is done.

    Raises:
      InputError: its command failed.
    """
    from beambert.deploy.retraining import workspace

    if not is_needed(step, run) or workspace.is_done(step, run):
        return
    if step == SERVING:
        _publish(config, run, descriptors)
        return
    _run(step, command(step, config, run), descriptors)


def _publish(config: Retraining, run: Run, descriptors: tuple[int, ...]) -> None:
    """Serves a blessed model, or leaves the old one; the run is finished then."""
    from beambert.deploy.retraining import workspace
    from beambert.pipelines.storage import tensorflow_files

    evaluation = run.folder(EVALUATION)
    is_blessed = tensorflow_files.exists(f"{evaluation}/{BLESSED}")
    reasons = tensorflow_files.read_text(f"{evaluation}/{BLESSED if is_blessed else NOT_BLESSED}")
    version = None
    if is_blessed:
        version = workspace.choose_version(f"{config.workspace}/{SERVING}", run)
        if not tensorflow_files.exists(f"{config.workspace}/{SERVING}/{version}"):
            _run(SERVING, command(SERVING, config, run), descriptors)
    result = {
        "outcome": REFUSED if version is None else PUBLISHED,
        "version": version,
        "reasons": reasons.splitlines(),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    workspace.write_json(f"{run.path}/{workspace.RESULT_FILE}", result)
    print(f"{run.path}: {result['outcome']}: {'; '.join(result['reasons'])}")
    if version is None:
        print(f"what was served before still is; see {evaluation}/{REPORT_FILE}")
    else:
        print(f"{config.workspace}/{SERVING}/{version}: is served now")


def _run(step: str, arguments: Sequence[str], descriptors: tuple[int, ...]) -> None:
    """Runs a command of BeamBERT to its end.

    Raises:
      InputError: it failed; its own message stands above.
    """
    print(f"\n[{step}] $ beambert {shlex.join(arguments)}", flush=True)
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "beambert", *arguments],
        pass_fds=descriptors,
    )

    received = []

    def pass_on(number: int, _: object) -> None:
        received.append(number)
        process.send_signal(number)

    # Spot machines are told by SIGTERM that they end; the command saves what it has.
    previous = signal.signal(signal.SIGTERM, pass_on)
    try:
        status = process.wait()
    except KeyboardInterrupt:  # Ctrl-C has reached the command, too
        process.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)
    if received:  # also if the step was done in that moment: the next one must not begin
        print(f"[{step}] ended by SIGTERM; the same command continues", file=sys.stderr)
        raise SystemExit(128 + signal.SIGTERM)
    if status:
        raise InputError(
            f"the step {step} failed (status {status}); what is served has not changed; mend it "
            "and give the same command again, which continues"
        )
    print(f"[{step}] done in {duration(time.monotonic() - started)}", flush=True)


def retrain(config: Retraining) -> None:
    """Does a whole run, or says that there is nothing to do.

    Raises:
      InputError: a step failed, or another run is at work.
    """
    from beambert.deploy.retraining import workspace

    with lock.one_at_a_time(config.workspace) as descriptors:
        run = plan(config)
        if run is None:
            print(f"{config.workspace}: nothing new")
            return
        begin(run)
        before = [step for step in STEPS if is_needed(step, run) and workspace.is_done(step, run)]
        print(_describe(run) + (f"; done already: {', '.join(before)}" if before else ""))
        for step in STEPS:
            run_step(step, config, run, descriptors)


def _describe(run: Run) -> str:
    what = f"goes on from {run.encoder}" if run.encoder else "the first run"
    return f"{run.path}: {run.new_files} new files, {what}"


def _show(config: Retraining) -> None:
    """Prints what a run would do."""
    run = plan(config)
    if run is None:
        print(f"{config.workspace}: nothing new")
        return
    print(_describe(run))
    for step in STEPS:
        if is_needed(step, run):
            print(f"[{step}] beambert {shlex.join(command(step, config, run))}")


def _plan_step(config: Retraining) -> str:
    """Begins a run for a pipeline whose steps are processes of their own."""
    run = plan(config)
    if run is None:
        print(f"{config.workspace}: nothing new")
        return NOTHING_NEW
    begin(run)
    print(_describe(run))
    return NEW


def _do_step(config: Retraining, step: str, holder: str | None) -> str | None:
    """Does one step of a holder of the lock; returns the outcome of a plan."""
    from beambert.deploy.retraining import workspace

    is_leased = holder and config.workspace.startswith("gs://")
    if step == RELEASE:
        if is_leased:
            lock.release(config.workspace, holder)
        return None
    try:
        if is_leased:  # anew in every step: it may be another's by now
            lock.Lease(config.workspace).acquire(holder, lock.PIPELINE_LEASE)
    except lock.BusyError as error:
        if step != PLAN:
            raise
        print(error)
        return BUSY
    if step == PLAN:
        return _plan_step(config)
    run = workspace.read_history(config.workspace).open
    if run is None:
        raise InputError(f"--step={step}: no run is open; begin one with --step={PLAN}")
    for earlier in STEPS[: STEPS.index(step)]:
        if is_needed(earlier, run) and not workspace.is_done(earlier, run):
            raise InputError(f"--step={step}: {earlier} of {run.path} isn't done; do that first")
    run_step(step, config, run)
    return None


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a person must mend something.
      SystemExit: another run is at work.
    """
    flags = build_parser().parse_args(list(argv))
    from beambert.deploy.retraining import workspace

    config = workspace.read_config(flags.config)
    try:
        if flags.dry_run:
            _show(config)
        elif flags.step:
            outcome = _do_step(config, flags.step, flags.holder)
            if outcome and flags.outcome_file:
                Path(flags.outcome_file).parent.mkdir(parents=True, exist_ok=True)
                Path(flags.outcome_file).write_text(outcome)
        else:
            retrain(config)
    except lock.BusyError as error:
        print(f"beambert retrain: {error}", file=sys.stderr)
        raise SystemExit(STATUS_OF_BUSY) from None


if __name__ == "__main__":
    sys.exit(run_main("retrain", main, sys.argv[1:]))
