"""Runs a Beam pipeline with Beam's flags, a progress line, quiet libraries and clear errors."""

import contextlib
import copy
import importlib.metadata
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from beambert.console import duration, quiet_stderr
from beambert.errors import InputError
from beambert.flags import Flag, FlagParser, unknown_flag
from beambert.loading import hidden
from beambert.pipelines.jobs.engine_errors import plain_errors
from beambert.pipelines.jobs.runner_flags import check_runner
from beambert.pipelines.storage.claims import absolute
from beambert.progress import Describe, Pace, ProgressDisplay

if TYPE_CHECKING:
    from apache_beam import Pipeline
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult

# Type of a function that adds the steps of a job to a pipeline. Its second argument is the folder
# for the counts of the workers, or None.
Build = Callable[["Pipeline", str | None], object]

BEAM_HELP = """Flags that aren't listed here go to Beam: --runner=DataflowRunner --project=P.
The default runner, FnApiRunner, uses one process on this machine. For two processes, add
  --direct_num_workers=2 --direct_running_mode=multi_processing
"""
# Below so many bytes of input, starting processes takes longer than they save.
LEAST_BYTES_FOR_PROCESSES = 100_000_000
# Runners whose shuffle spills to disk or is a service. PortableRunner sends jobs to a Flink or a
# Spark of one's own. All other runners have their workers on this machine.
SHUFFLING_RUNNERS = ("DataflowRunner", "FlinkRunner", "SparkRunner", "PortableRunner")
# Environments of Beam whose workers may share a file system with this machine, unlike containers.
SHARING_ENVIRONMENTS = ("PROCESS", "EXTERNAL")

# Log levels of libraries while a job runs on this machine; "" stands for all other libraries.
_QUIET_LEVELS = {"": logging.ERROR} | dict.fromkeys(
    ("apache_beam", "tensorflow", "absl"), logging.CRITICAL
)


def beam_options(
    arguments: Sequence[str], own: Mapping[str, Flag] | None = None
) -> "PipelineOptions":
    """Parses Beam's flags, and makes those of storage, such as --hdfs_host, known to its files.

    Args:
      arguments: flags that the command does not know.
      own: flags of the command, to suggest one for a flag that nobody knows.

    Raises:
      InputError: a flag is unknown to Beam, too, or has a value that Beam does not take.
    """
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

    parser = FlagParser(add_help=False)
    for options in PipelineOptions.__subclasses__():
        # Beam builds its own parser in this way. It has no public list of its flags.
        options._add_argparse_args(parser)
    _, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        beams = (option for option in parser._option_string_actions if option.startswith("--"))
        raise unknown_flag(unknown[0], own or {}, [option[2:] for option in beams])
    result = PipelineOptions(list(arguments))
    check_runner(result)
    if result.view_as(StandardOptions).no_wait_until_finish:
        raise InputError(
            "--no_wait_until_finish: the command finishes what its job has made, and so waits for "
            "it; leave it out"
        )
    if result.view_as(StandardOptions).runner is None:
        # DirectRunner would first try to download another runner.
        result.view_as(StandardOptions).runner = "FnApiRunner"
    # A pipeline does that, too, but the inputs are listed before.
    FileSystems.set_options(result)
    return result


def has_local_workers(options: "PipelineOptions") -> bool:
    """Returns whether the workers run on this machine, where a progress line can be shown."""
    from apache_beam.options.pipeline_options import (
        FlinkRunnerOptions,
        PortableOptions,
        SparkRunnerOptions,
        StandardOptions,
    )

    if environment := options.view_as(PortableOptions).environment_type:
        return environment == "LOOPBACK"
    runner = options.view_as(StandardOptions).runner
    # Beam's default is LOOPBACK unless a cluster is named.
    if runner == "FlinkRunner":
        return options.view_as(FlinkRunnerOptions).flink_master in ("[local]", "[auto]")
    if runner == "SparkRunner":
        return options.view_as(SparkRunnerOptions).spark_master_url.startswith("local")
    return runner in ("FnApiRunner", "DirectRunner", "PrismRunner")


def works_here(options: "PipelineOptions") -> bool:
    """Returns whether the work is done in this process rather than in other ones."""
    from apache_beam.options.pipeline_options import DirectOptions

    mode = options.view_as(DirectOptions).direct_running_mode
    return has_local_workers(options) and mode != "multi_processing"


def fit_processes(options: "PipelineOptions", total_bytes: int) -> tuple["PipelineOptions", str]:
    """Returns options without worker processes where these would only take longer.

    Args:
      options: Beam's options.
      total_bytes: size of the input.

    Returns:
      the options, and a line that says so; "" if they are as given.
    """
    from apache_beam.options.pipeline_options import DirectOptions

    if (
        not has_local_workers(options)
        or works_here(options)
        or total_bytes >= LEAST_BYTES_FOR_PROCESSES
    ):
        return options, ""
    found = copy.deepcopy(options)
    direct = found.view_as(DirectOptions)
    direct.direct_running_mode, direct.direct_num_workers = "in_memory", 1
    least = LEAST_BYTES_FOR_PROCESSES / 1e6
    return found, (
        f"one process does the work: below {least:,.0f} MB, --direct_running_mode=multi_processing "
        "would take longer"
    )


def check_reachable(options: "PipelineOptions", **paths: str | Sequence[str]) -> None:
    """Refuses paths on this machine if the workers cannot see them.

    Workers in processes on machines of one's own may share a folder. `check_visible` looks there.

    Args:
      options: Beam's options.
      **paths: flag -> its path or paths.

    Raises:
      InputError: a worker cannot read a path.
    """
    if has_local_workers(options) or may_share(options):
        return
    workers = "Dataflow's workers" if on_dataflow(options) else "workers in containers"
    remedy = (
        "name a gs:// path" if on_dataflow(options) else "name a path on object storage or HDFS"
    )
    for flag, given in paths.items():
        for path in [given] if isinstance(given, str) else given:
            if "://" not in path:
                raise InputError(
                    f"--{flag}={path}: {workers} don't see this machine's files; {remedy}"
                )


def check_reachable_from(pipeline: "Pipeline", **paths: str | Sequence[str]) -> None:
    """Refuses paths on this machine in a pipeline of one's own if its workers cannot see them.

    Args:
      pipeline: the pipeline; one that is only shown is not checked.
      **paths: flag -> its path or paths.

    Raises:
      InputError: a worker cannot read a path.
    """
    from apache_beam.options.pipeline_options import StandardOptions, TestOptions

    runner = type(pipeline.runner).__name__
    if runner not in SHUFFLING_RUNNERS or pipeline.options.view_as(TestOptions).dry_run:
        return
    options = copy.deepcopy(pipeline.options)
    options.view_as(StandardOptions).runner = runner
    check_reachable(options, **paths)


def may_share(options: "PipelineOptions") -> bool:
    """Returns whether the workers are elsewhere, but may share a file system with this machine."""
    from apache_beam.options.pipeline_options import PortableOptions

    environment = options.view_as(PortableOptions).environment_type
    return environment in SHARING_ENVIRONMENTS and not on_dataflow(options)


def on_dataflow(options: "PipelineOptions") -> bool:
    """Returns whether Dataflow's workers do the work."""
    from apache_beam.options.pipeline_options import StandardOptions

    return options.view_as(StandardOptions).runner == "DataflowRunner"


def path_for_workers(path: str, options: "PipelineOptions") -> str:
    """Returns a path as workers need it: they may have another current folder."""
    return path if has_local_workers(options) else absolute(path)


def library_versions(others: Sequence[str] = ()) -> dict[str, str]:
    """Returns the versions of Python and of the libraries that shape the output of pipelines.

    Args:
      others: names of packages that shape this one's, besides those that always do.
    """
    libraries = ("apache-beam", "numpy", "sentencex", "tensorflow", "tensorflow-text", "tfx-bsl")
    libraries += tuple(others)
    versions = {name: importlib.metadata.version(name) for name in libraries}
    return versions | {"python": sys.version.split()[0]}


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Hides notices of Beam, TensorFlow and TFMA.

    The exception of a failure holds what they log about it, and their stack traces would bury it.
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


def describe_examples(total: int) -> Describe:
    """Returns a function that describes the progress through examples; see `ProgressDisplay`."""
    pace = Pace()

    def describe(counts: dict[str, int], seconds: float) -> str:
        done = counts.get("examples", 0)
        if not done:
            return ""
        line = f"{done:,} of {total:,} examples"
        if rate := pace.of(done, seconds):
            line += f", {rate:,.0f}/s, {duration((total - done) / rate)} left"
        return line

    return describe


def run_job(
    build: Build,
    options: "PipelineOptions",
    describe: Describe,
    amount: float,
    unit: str,
    done: str = "done",
    output: str = "",
) -> dict[str, float]:
    """Runs a pipeline to its end with a progress line, and prints its duration and rate.

    Args:
      build: function that adds the steps to a pipeline, see `Build`.
      options: Beam's options.
      describe: function that returns the progress line, see `ProgressDisplay`.
      amount: size of the input, for the rate.
      unit: unit of the amount.
      done: participle for the line about the duration; a command with several jobs names each.
      output: folder that the command has made and workers write to; one elsewhere looks whether
        it sees it, and writes its error there, see `permanent_errors`.

    Returns:
      The seconds that the workers together spent in each stage, see `clock`.

    Raises:
      InputError: a worker or the runner raised an error that the user can mend.
    """
    from beambert.pipelines.jobs import clock, job_servers

    started, folder = time.monotonic(), None
    with plain_errors(), contextlib.ExitStack() as stack:
        if has_local_workers(options):
            folder = stack.enter_context(ProgressDisplay(describe)).folder
            stack.enter_context(quiet_libraries())
        job_servers.check_answers(options)
        stack.enter_context(job_servers.ended_after())
        # The server of a job tells the counts.
        stages = clock.stage_seconds(_run(build, options, folder, output))
        seconds = time.monotonic() - started
    print(f"{done} in {duration(seconds)}, {amount / seconds:,.2f} {unit}/s")
    return stages


def translate_job(build: Build, options: "PipelineOptions") -> "PipelineResult":
    """Returns the job that Dataflow would get, without sending it.

    Raises:
      InputError: an option cannot be used.
    """
    from apache_beam.options.pipeline_options import TestOptions

    options.view_as(TestOptions).dry_run = True
    with plain_errors(), quiet_libraries():
        return _run(build, options, None)


def _run(
    build: Build,
    options: "PipelineOptions",
    progress_folder: str | None,
    output: str = "",
) -> "PipelineResult":
    import apache_beam as beam
    from apache_beam.options.pipeline_options import DirectOptions

    if options.view_as(DirectOptions).direct_running_mode != "in_memory":
        from beambert.pipelines.jobs import local_workers

        local_workers.install()
    # Beam looks for it, which would load all of it, to see whether this is a notebook.
    with hidden("IPython"), contextlib.ExitStack() as stack:
        pipeline = beam.Pipeline(options=options)
        build(pipeline, progress_folder)
        errors = ""
        if output and not has_local_workers(options):
            from beambert.pipelines.files.beam_files import delete_quietly
            from beambert.pipelines.jobs import permanent_errors

            errors = permanent_errors.error_path(output)
            permanent_errors.note_errors(pipeline, errors)
            stack.callback(delete_quietly, [errors])
        result = pipeline.run()
        if errors:
            stack.enter_context(permanent_errors.cancelled_on_error(errors, result.cancel))
        result.wait_until_finish()
        return result
