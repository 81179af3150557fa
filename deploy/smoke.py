"""A first live run of everything on Google Cloud, with a tiny corpus, and its teardown.

    make smoke-cloud PROJECT=my-trial ARGUMENTS=--dry_run     prints every call and what it costs
    make smoke-cloud PROJECT=my-trial                         makes the calls

Steps that don't need each other run side by side. The same command goes on after a step that has
failed. The project must be one for trials: `teardown` deletes its buckets and its endpoint. Before
any call is made, deploy/terraform/terraform.tfvars must name it. trainer = "v5e-1" is enough, with
a quota of two chips. With canary_share = 50 the pipeline itself tries the second version out, whose
rights are proven then.
"""

import dataclasses
import pathlib
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent import futures

from beambert.console import duration, run_main
from beambert.deploy.settings import FILE, Settings
from beambert.deploy.smoke_steps import FOLDER, TEARDOWN, SmokeStep, expected_minutes, order, steps
from beambert.errors import InputError
from beambert.flags import FlagParser


def describe(every: Sequence[SmokeStep]) -> str:
    """Returns all calls, with what each step proves, costs and takes."""
    lines = []
    for step in every:
        machines = ", ".join(f"{hours:g} h of {name}" for name, hours in step.hours.items())
        cost = f"${step.dollars:.2f}: {machines}" if machines else "$0"
        after = f"after {', '.join(step.after)}; " if step.after else ""
        lines.append(f"[{step.name}] proves: {step.proves} ({after}{step.minutes:g} min; {cost})")
        lines += [*step.calls, ""]
    total = sum(step.dollars for step in every)
    return "\n".join(
        [
            *lines,
            f"about ${total:.2f} and {expected_minutes(every):.0f} minutes in all; list prices of "
            "us-central1 as of 2025, times expected and never measured",
        ]
    )


def run(every: Sequence[SmokeStep], record: pathlib.Path) -> None:
    """Makes the calls, those of steps that don't need each other side by side.

    After a failure no further step begins, and those at work are awaited.

    Args:
      every: the steps to do.
      record: file that gets the name of each step that works. `teardown` deletes it.

    Raises:
      InputError: a call failed; what was made stays.
    """
    by_name, waiting = {step.name: step for step in every}, order(every)
    waiting.prepare()
    record.parent.mkdir(parents=True, exist_ok=True)
    with futures.ThreadPoolExecutor(max(len(every), 1)) as pool:
        at_work: dict[futures.Future, str] = {}
        failure = None
        while waiting.is_active():
            if failure is None:
                at_work |= {pool.submit(_do, by_name[name]): name for name in waiting.get_ready()}
            if not at_work:
                break
            ended, _ = futures.wait(at_work, return_when=futures.FIRST_COMPLETED)
            for each in ended:
                name = at_work.pop(each)
                if error := each.exception():
                    failure = failure or error
                    continue
                with record.open("a") as file:
                    file.write(f"{name}\n")
                waiting.done(name)
    if failure is not None:
        raise failure
    if TEARDOWN in by_name:
        record.unlink()


def _do(step: SmokeStep) -> None:
    """Makes the calls of a step; each line that they print begins with its name.

    Raises:
      InputError: a call failed.
    """
    tell = lambda text: print(f"[{step.name}] {text}", flush=True)  # noqa: E731
    tell(f"proves: {step.proves}")
    started = time.monotonic()
    for call in step.calls:
        tell(f"$ {call}")
        process = subprocess.Popen(
            ["bash", "-c", f"set -o pipefail; {call}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        for line in process.stdout:
            tell(line.rstrip())
        if status := process.wait():
            raise InputError(
                f"{step.name}: a call failed (status {status}); mend it and give the same command "
                f"again, which goes on, or end with --start={TEARDOWN}"
            )
    tell(f"works, {duration(time.monotonic() - started)}")


def build_parser() -> FlagParser:
    """Returns the parser of the command's flags."""
    parser = FlagParser(prog="python -m beambert.deploy.smoke", description=__doc__)
    add = parser.add_argument
    add("--project", required=True, help="project for trials, which terraform.tfvars names")
    add("--commit", help="commit to build (default: the one that is checked out)")
    add(
        "--start",
        metavar="STEP",
        help="step to start with; all that --dry_run prints before it count as done (default: the "
        "first one that has not worked yet)",
    )
    add("--dry_run", action="store_true", help="print the calls and their costs, and make none")
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag cannot be used, or a call failed.
    """
    flags = build_parser().parse_args(list(argv))
    if not flags.project:
        raise InputError("--project: is empty; give the project for trials, as PROJECT=… of make")
    settings = Settings.read()
    is_another = flags.project != settings.project
    if is_another and not flags.dry_run:
        raise InputError(
            f"--project={flags.project}: {FILE} names {settings.project}; write the names of the "
            "project for trials there"
        )
    settings = dataclasses.replace(settings, project=flags.project)
    commit = flags.commit or _checked_out()
    every = steps(settings, commit)
    names = [step.name for step in every]
    if flags.start and flags.start not in names:
        raise InputError(f"--start={flags.start}: is no step; choose one of {', '.join(names)}")
    record = pathlib.Path(FOLDER) / f"{commit}.done"
    done = set(record.read_text().split()) if record.is_file() else set()
    if flags.start:
        done = set(names[: names.index(flags.start)])
    every = [step for step in every if step.name not in done]
    if flags.dry_run:
        print(describe(every))
        if is_another:
            print(f"before the calls are made, write {flags.project} and its bucket to {FILE}")
    else:
        run(every, record)


def _checked_out() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=FILE.parent
    )
    if done.returncode:
        raise InputError("--commit: is needed outside of a checkout; name the commit to build")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(run_main("smoke", main, sys.argv[1:]))
