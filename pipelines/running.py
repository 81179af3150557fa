"""Runs a Beam pipeline with Beam's flags, a progress line, quiet libraries and clear errors."""

import contextlib
import copy
import functools
import importlib.metadata
import logging
import os
import re
import sys
import threading
import time
import types
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beambert.console import Describe, Pace, ProgressDisplay, duration
from beambert.errors import InputError, input_error_in
from beambert.flags import Flag, FlagParser, unknown_flag
from beambert.io import absolute_pattern, is_local
from beambert.process import hidden, logging_restored, quiet_stderr, undone_at_end

if TYPE_CHECKING:
    from apache_beam import PCollection, Pipeline
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.pvalue import AsSingleton

# The local runner's message when one of its worker processes has ended.
WORKER_GONE = "Channel closed prematurely"
# Type of a function that adds the steps of a job to a pipeline. Its second argument is the folder
# for the counts of the workers, or None.
Build = Callable[["Pipeline", str | None], object]

BEAM_HELP = """Flags that aren't listed here go to Beam: --runner=DataflowRunner --project=P.
The default runner, FnApiRunner, uses one process on this machine. For one on each core, add
  --direct_num_workers=0
"""
# Runners whose shuffle spills to disk or is a service. PortableRunner sends jobs to a Flink or
# a separate Spark. All other runners have their workers on this machine.
SHUFFLING_RUNNERS = ("DataflowRunner", "FlinkRunner", "SparkRunner", "PortableRunner")
# Environments of Beam whose workers may share a file system with this machine, unlike containers.
SHARING_ENVIRONMENTS = ("PROCESS", "EXTERNAL")

# Output folders and files that the transforms of a pipeline make.
_OUTPUTS: "weakref.WeakKeyDictionary[Pipeline, set[str]]" = weakref.WeakKeyDictionary()
# Log levels of libraries while a job runs on this machine; "" stands for all other libraries.
_QUIET_LEVELS = {"": logging.ERROR} | dict.fromkeys(
    ("apache_beam", "tensorflow", "absl"), logging.CRITICAL
)


def beam_options(
    arguments: Sequence[str], own: Mapping[str, Flag] | None = None
) -> "PipelineOptions":
    """Parses Beam's flags.

    Args:
      arguments: flags that the command does not know.
      own: flags of the command, to suggest one for a flag that nobody knows.

    Raises:
      InputError: a flag is unknown to Beam, too, or has a value that Beam does not take.
    """
    from apache_beam.options.pipeline_options import (
        DirectOptions,
        PipelineOptions,
        StandardOptions,
    )

    parser = FlagParser(add_help=False)
    for options in PipelineOptions.__subclasses__():
        # Beam builds its own parser in this way. It has no public list of its flags.
        options._add_argparse_args(parser)
    _, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        beams = (option for option in parser._option_string_actions if option.startswith("--"))
        raise unknown_flag(unknown[0], own or {}, [option[2:] for option in beams])
    result = PipelineOptions(list(arguments))
    standard = result.view_as(StandardOptions)
    if standard.no_wait_until_finish:
        raise InputError(
            "--no_wait_until_finish: the command finishes what its job has made, and so waits for "
            "it; leave it out"
        )
    # DirectRunner would first try to download another runner.
    given = standard.runner or "FnApiRunner"
    known = {each.lower(): each for each in StandardOptions.KNOWN_RUNNER_NAMES}
    whole = {given.lower(), f"{given.lower()}runner"} & known.keys()
    if not whole and "." not in given:  # One of others has a module.
        raise InputError(
            f"--runner={given}: Beam has none; name one of {', '.join(known.values())}"
        )
    standard.runner = known[whole.pop()] if whole else given
    direct = result.view_as(DirectOptions)
    if direct.direct_num_workers != 1 and direct.direct_running_mode == "in_memory":
        # In Beam's default mode there is one worker in any case.
        direct.direct_running_mode = "multi_processing"
    return result


def on_this_machine(run: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of a job and Beam's options, which name this process if they name none.

    What libraries change in logging meanwhile is undone.
    """

    @functools.wraps(run)
    @logging_restored()
    def call(job: Any, options: "PipelineOptions | None" = None) -> Any:
        from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

        options = options or beam_options([])
        if options.view_as(StandardOptions).runner is None:
            options = PipelineOptions.from_dictionary(options.get_all_options(drop_default=True))
            options.view_as(StandardOptions).runner = "FnApiRunner"
        return run(job, options)

    return call


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


def check_reachable(options: "PipelineOptions", **paths: str | Sequence[str]) -> None:
    """Refuses paths on this machine if the workers cannot see them.

    Workers in processes on other machines may share a folder. `check_visible` looks there.

    Args:
      options: Beam's options.
      **paths: flag -> its path or paths.

    Raises:
      InputError: a worker cannot read a path.
    """
    from apache_beam.options.pipeline_options import PortableOptions, StandardOptions

    is_dataflow = options.view_as(StandardOptions).runner == "DataflowRunner"
    environment = options.view_as(PortableOptions).environment_type
    may_share = environment in SHARING_ENVIRONMENTS and not is_dataflow
    if has_local_workers(options) or may_share:
        return
    workers, remedy = "workers in containers", "name a path on object storage or HDFS"
    if is_dataflow:
        workers, remedy = "Dataflow's workers", "name a gs:// path"
    for flag, given in paths.items():
        for path in [given] if isinstance(given, str) else given:
            if is_local(path):
                raise InputError(
                    f"--{flag}={path}: {workers} don't see this machine's files; {remedy}"
                )


def check_reachable_from(pipeline: "Pipeline", **paths: str | Sequence[str]) -> None:
    """Refuses paths on this machine in a custom pipeline if its workers cannot see them.

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


def path_for_workers(path: str, options: "PipelineOptions") -> str:
    """Returns a path or pattern as workers need it: they may have another current folder."""
    return path if has_local_workers(options) else absolute_pattern(path)


def library_versions(others: Sequence[str]) -> dict[str, str]:
    """Returns the versions of Python and of the libraries that shape the output of pipelines.

    Args:
      others: names of packages that shape this one's, besides those that always do.
    """
    libraries = ("apache-beam", "numpy", "sentencex", "tfx-bsl", *others)
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
) -> None:
    """Runs a pipeline to its end with a progress line, and prints its duration and rate.

    Args:
      build: function that adds the steps to a pipeline, see `Build`.
      options: Beam's options.
      describe: function that returns the progress line, see `ProgressDisplay`.
      amount: size of the input, for the rate.
      unit: unit of the amount.
      done: participle for the line about the duration; a command with several jobs names each.

    Raises:
      InputError: a worker raised one, or a service of Google refused the job.
    """
    started, folder = time.monotonic(), None
    with plain_errors(), _logged_errors_hidden(), contextlib.ExitStack() as stack:
        if has_local_workers(options):
            folder = stack.enter_context(ProgressDisplay(describe)).folder
            stack.enter_context(quiet_libraries())
        stack.enter_context(_beam_contained())
        _run(build, options, folder)
        seconds = time.monotonic() - started
    print(f"{done} in {duration(seconds)}, {amount / seconds:,.2f} {unit}/s")


def _run(build: Build, options: "PipelineOptions", progress_folder: str | None) -> None:
    import apache_beam as beam

    # Beam looks for it, which would load all of it, to see whether this is a notebook.
    with hidden("IPython"):
        try:
            pipeline = beam.Pipeline(options=options)
        except ValueError as error:  # an option is missing or does not fit the others
            raise InputError(" ".join(str(error).split())) from error
        build(pipeline, progress_folder)
        pipeline.run().wait_until_finish()


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Raises an `InputError` for an exception that contains one or that a Google service raised.

    Runners also retry work that failed with an `InputError`: Dataflow tries it four times, Flink
    and Spark as often as they are configured to, by default once.

    Raises:
      InputError: a worker raised it, or a service of Google refused the job; all other exceptions
        pass unchanged.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, InputError) and "[while running " not in str(error):
            raise
        if (found := _plain_error(error)) is None:
            raise
        raise found from error


@contextlib.contextmanager
def _logged_errors_hidden() -> Iterator[None]:
    """Hides what a cluster logs of a worker's `InputError`, which the job's failure raises, too."""

    def is_other(record: logging.LogRecord) -> bool:
        return f"{InputError.__name__}: " not in record.getMessage()

    logging.root.addFilter(is_other)
    try:
        yield
    finally:
        logging.root.removeFilter(is_other)


def _plain_error(error: Exception) -> InputError | None:
    """Returns what a user can do about the failure of a job; None if its exception doesn't tell."""
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    if found := input_error_in(error):
        return found
    if isinstance(error, (GoogleAPIError, GoogleAuthError)):
        return InputError(" ".join(str(error).split()))
    if WORKER_GONE in str(error):
        return InputError(
            "--direct_num_workers: a worker was killed, did not start or ran out of memory; run "
            "the same command again, with fewer workers if memory ran out"
        )
    # Without space, over a quota, a broken disk, a lost network file system.
    if failed := re.search(r"\[Errno (?:28|122|5|116)\] ([\w/ ]+)", str(error)):
        return InputError(
            f"--output: cannot be written, or an input read ({failed[1].strip()}); check the disk"
        )
    return None


# The job servers that run, each as Beam knows it and as it was started.
_SERVERS: list[tuple[Any, Any]] = []


@contextlib.contextmanager
def _beam_contained() -> Iterator[None]:
    """Keeps the servers and processes that Beam starts in the body from others, and ends them.

    Beam has no settings for that, so its classes are replaced:

    - Its local runner's servers, which know no passwords, listen on all interfaces.
    - It would wait for ever for a worker process that ends before it has connected.
    - A job server of Flink, Spark or Prism ends with Python, after the folder for temporary files
      is gone, and so fails; its handler of Ctrl-C would take the place of ours.
    """
    import grpc
    from apache_beam.portability import python_urns
    from apache_beam.runners.portability import job_server, local_job_service
    from apache_beam.runners.portability.fn_api_runner import worker_handlers

    class Worker(worker_handlers.SubprocessSdkWorkerHandler):
        is_closing = False

        def start_worker(self) -> None:
            super().start_worker()
            threading.Thread(target=self._watch, daemon=True).start()

        def _watch(self) -> None:
            self.worker_thread.join()
            if not self.is_closing:
                with contextlib.suppress(RuntimeError):
                    self.control_conn.abort(RuntimeError(WORKER_GONE))
                    self.data_conn.close()

        def close(self) -> None:
            self.is_closing = True
            super().close()

    class Server(job_server.JobServer):
        def __init__(self, server: job_server.SubprocessJobServer):
            self._server, self._stub = server, None

        def start(self) -> Any:
            if self._stub is None:
                running = copy.copy(self._server)  # A stopped one cannot be started again.
                _SERVERS.append((self, running))
                self._stub = running.start()
            return self._stub

        def stop(self) -> None:
            self._stub = None

    def stop_servers() -> None:
        while _SERVERS:
            server, running = _SERVERS.pop()
            server.stop()  # Spark's runner keeps it for the process's next job.
            running.stop()

    register = worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
    register(Worker)
    loopback = types.SimpleNamespace(**vars(grpc))
    loopback.server = _loopback_server
    worker_handlers.grpc = local_job_service.grpc = loopback
    job_server.StopOnExitJobServer = Server
    try:
        with undone_at_end(stop_servers):
            yield
    finally:
        stop_servers()


def _loopback_server(*arguments: Any, **settings: Any) -> Any:
    """Returns a server of gRPC whose ports only this machine can reach."""
    import grpc

    server = grpc.server(*arguments, **settings)
    add_port = server.add_insecure_port
    server.add_insecure_port = lambda address: add_port(address.replace("[::]", "127.0.0.1"))
    return server


def take_output(pipeline: "Pipeline", output: str) -> None:
    """Gives an output to one transform of a pipeline.

    The claim of a folder doesn't keep a second one out: it would be the same job given again.

    Args:
      pipeline: the pipeline.
      output: path of a file or folder to make.

    Raises:
      InputError: another transform of the pipeline makes it.
    """
    taken = _OUTPUTS.setdefault(pipeline, set())
    if output.rstrip("/") in taken:
        raise InputError(
            f"--output={output}: another transform of the pipeline writes there; choose another "
            "folder, or flatten the collections before one transform"
        )
    taken.add(output.rstrip("/"))


def check_visible(folder: str) -> None:
    """Checks on a worker that it sees the output folder that the command has made.

    Raises:
      InputError: the folder is not there.
    """
    if is_local(folder) and not os.path.isdir(folder):
        raise InputError(
            f"--output={folder}: the workers don't see this folder; name one that all of them share"
        )


def check_beginning(given: Any, name: str) -> None:
    """Refuses an input collection for a transform that must begin a pipeline.

    Args:
      given: what the transform is applied to.
      name: name of the transform.

    Raises:
      InputError: it is a collection.
    """
    import apache_beam as beam

    if not isinstance(given, beam.pvalue.PBegin):
        raise InputError(
            f"{name}: reads files that exist before the pipeline runs, and takes no elements; "
            "apply it to the beginning of a pipeline"
        )


def total_of(
    elements: "PCollection", label: str, add_up: Callable[[Sequence[Any]], Any]
) -> "AsSingleton":
    """Adds a step that adds up elements; returns the total as a side input.

    Args:
      elements: the elements.
      label: name of the step.
      add_up: function that returns the total of some elements, even of none. It changes none of
        them, and totals of totals are totals.
    """
    import apache_beam as beam

    # Beam would take the hints of the function's arguments for those of an element.
    combined = beam.CombineGlobally(lambda parts: add_up(list(parts)))
    totals = elements | label >> combined.without_defaults()
    # A default of the side input takes five steps less than one of the combination.
    return beam.pvalue.AsSingleton(totals, default_value=add_up([]))


def add_counts(counts: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Returns the sum of counts, name by name; unlike that of Python's `+`, it may be negative."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total
