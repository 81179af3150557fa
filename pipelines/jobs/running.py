"""The one way to run a Beam pipeline: Beam's flags, progress, quiet libraries, clear errors."""

import argparse
import contextlib
import importlib.metadata
import logging
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from beambert.pipelines.shared.console import duration, input_error_in, quiet_stderr
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.loading import hidden
from beambert.pipelines.shared.progress import ProgressDisplay

if TYPE_CHECKING:
    from apache_beam import Pipeline
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult

# Adds a job's steps to a pipeline; takes the folder that workers tally their progress in, or None.
Build = Callable[["Pipeline", str | None], object]

BEAM_HELP = """Flags that aren't listed here go to Beam, as --runner=DataflowRunner --project=P.
The default runner is FnApiRunner: this machine, one process. For two:
  --direct_num_workers=2 --direct_running_mode=multi_processing
"""
# What the local runner says when one of its worker processes is gone.
WORKER_GONE = "Channel closed prematurely"
# What Beam says of options that lack one, and of a job that an earlier start left at work.
MENDABLE = ("Pipeline has validations errors", "There is already active job named")
# What an operating system says of it; Beam's own sinks pass it on as it is.
_UNWRITABLE = "No space left on device|File too large|Disk quota exceeded|Read-only file system"

# What is still said while a job runs on this machine; "" stands for all other libraries.
_QUIET_LEVELS = {"": logging.ERROR} | dict.fromkeys(
    ("apache_beam", "tensorflow", "absl"), logging.CRITICAL
)


def beam_options(arguments: Sequence[str]) -> "PipelineOptions":
    """Reads Beam's flags, refusing what neither we nor Beam know.

    Raises:
      InputError: an unknown flag.
    """
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for options in PipelineOptions.__subclasses__():
        # Beam itself builds its parser so; there is no public list of its flags.
        options._add_argparse_args(parser)
    _, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        raise InputError(f"{unknown[0]}: no such flag; see --help")
    result = PipelineOptions(list(arguments))
    if result.view_as(StandardOptions).runner is None:
        # DirectRunner would first try to download another runner.
        result.view_as(StandardOptions).runner = "FnApiRunner"
    return result


def is_local(options: "PipelineOptions") -> bool:
    """Whether the runner's workers are on this machine, so that they can tell their progress."""
    from apache_beam.options.pipeline_options import (
        FlinkRunnerOptions,
        PortableOptions,
        StandardOptions,
    )

    if environment := options.view_as(PortableOptions).environment_type:
        return environment == "LOOPBACK"
    runner = options.view_as(StandardOptions).runner
    if runner == "FlinkRunner":
        # Beam's own default: LOOPBACK unless a cluster is named.
        return options.view_as(FlinkRunnerOptions).flink_master in ("[local]", "[auto]")
    return runner in ("FnApiRunner", "DirectRunner", "PrismRunner")


def works_here(options: "PipelineOptions") -> bool:
    """Whether the work is done in this process rather than in others on this machine."""
    from apache_beam.options.pipeline_options import DirectOptions

    mode = options.view_as(DirectOptions).direct_running_mode
    return is_local(options) and mode != "multi_processing"


def check_reachable(options: "PipelineOptions", **paths: str | Sequence[str]) -> None:
    """Refuses paths on this machine for workers that are on others.

    Args:
      options: of Beam.
      **paths: flag -> what it was given.

    Raises:
      InputError: naming the flag.
    """
    from apache_beam.options.pipeline_options import StandardOptions

    if options.view_as(StandardOptions).runner != "DataflowRunner":
        return
    for flag, given in paths.items():
        for path in [given] if isinstance(given, str) else given:
            if "://" not in path:
                raise InputError(
                    f"--{flag}={path}: Dataflow's workers don't see this machine's files; name a "
                    "gs:// path"
                )


def library_versions() -> dict[str, str]:
    """Returns the versions of what shapes the output of the pipelines."""
    libraries = ("apache-beam", "numpy", "sentencex", "tensorflow", "tensorflow-text", "tfx-bsl")
    versions = {name: importlib.metadata.version(name) for name in libraries}
    return versions | {"python": sys.version.split()[0]}


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Says in a sentence what a runner refuses or a worker raised.

    Raises:
      InputError: it is something that the user can mend.
    """
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError

    try:
        yield
    except Exception as error:
        if isinstance(error, InputError) and "[while running " not in str(error):
            raise
        found = input_error_in(error)
        if found is None and WORKER_GONE in str(error):
            found = InputError(
                "a worker was killed or ran out of memory; nothing is lost: give the same command "
                "again, with fewer workers (--direct_num_workers) if it was memory"
            )
        if found is None and (
            isinstance(error, (GoogleAPICallError, GoogleAuthError))
            or any(words in str(error) for words in MENDABLE)
        ):
            found = InputError(" ".join(str(error).split()))
        unwritable = re.search(_UNWRITABLE, str(error))
        if found is None and unwritable:
            found = InputError(
                f"--output cannot be written ({unwritable[0]}): make room or choose another, then "
                "give the same command again"
            )
        if found is None:
            raise
        raise found from error


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keeps notices of Beam, TensorFlow and TFMA from the user's screen.

    What they say of a failure is in the exception too; their stack traces would bury it.
    """
    levels = {name: logging.getLogger(name).level for name in _QUIET_LEVELS}
    with warnings.catch_warnings(), quiet_stderr():
        warnings.simplefilter("ignore")
        for name, level in _QUIET_LEVELS.items():
            logging.getLogger(name).setLevel(level)
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


def describe_examples(total: int) -> Callable[[dict[str, int], float], str]:
    """Returns what makes the progress line of so many examples; see `ProgressDisplay`."""

    def describe(counts: dict[str, int], seconds: float) -> str:
        done = counts.get("examples", 0)
        if not done:
            return ""
        left = duration(seconds * (total - done) / done)
        return f"{done:,} of {total:,} examples, {done / seconds:,.0f}/s, {left} left"

    return describe


def run_job(
    build: Build,
    options: "PipelineOptions",
    describe: Callable[[dict[str, int], float], str],
    amount: float,
    unit: str,
) -> "PipelineResult":
    """Runs a pipeline to its end with a progress line, and says how long it took.

    Args:
      build: adds the steps to a pipeline; also takes the folder that the workers tally in, or None.
      options: Beam's options.
      describe: see `ProgressDisplay`.
      amount: how much the job works on, for the rate.
      unit: what the amount counts.

    Returns:
      what the runner tells of it.

    Raises:
      InputError: whichever a worker raised.
    """
    started = time.monotonic()
    with plain_errors():
        if is_local(options):
            with ProgressDisplay(describe) as display, quiet_libraries():
                result = _run(build, options, display.folder)
        else:
            result = _run(build, options, None)
    seconds = time.monotonic() - started
    print(f"done in {duration(seconds)}, {amount / seconds:,.2f} {unit}/s")
    return result


def translate_job(build: Build, options: "PipelineOptions") -> "PipelineResult":
    """Returns what Dataflow would be sent; sends nothing.

    Raises:
      InputError: an option can't be used.
    """
    from apache_beam.options.pipeline_options import TestOptions

    options.view_as(TestOptions).dry_run = True
    with plain_errors(), quiet_libraries():
        return _run(build, options, None)


def _run(build: Build, options: "PipelineOptions", progress_folder: str | None) -> "PipelineResult":
    import apache_beam as beam

    # Beam looks for it, which would load all of it, to see whether this is a notebook.
    with hidden("IPython"), beam.Pipeline(options=options) as pipeline:
        build(pipeline, progress_folder)
    return pipeline.result
