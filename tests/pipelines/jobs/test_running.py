"""The one way to run a pipeline: progress, quiet libraries, errors as sentences."""

import logging
import re
import time
import warnings

import apache_beam as beam
import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import HadoopFileSystemOptions

from beambert import console
from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.pipelines import running

LOGGERS = ("", "apache_beam", "tensorflow", "absl")


@pytest.fixture
def often(monkeypatch):
    """Progress is told and shown all the time."""
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 0.01)
    monkeypatch.setattr(console, "SECONDS_BETWEEN_TALLIES", 0.0)


def run(step, elements=(1, 2, 3)):
    """Runs one step; it takes the folder to tally in, and an element."""

    def build(pipeline, folder):
        return pipeline | beam.Create(elements) | beam.Map(lambda element: step(folder, element))

    options = running.beam_options([])
    return running.run_job(build, options, running.describe_examples(3), 3, "examples")


def test_progress_and_the_rate(often, capsys):
    def step(folder, examples):
        ProgressTally(folder).add(examples=examples)
        time.sleep(0.1)

    run(step, [3])
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines[-1] == "3 of 3 examples"
    assert re.fullmatch(r"done in .+ s, [\d.,]+ examples/s", last)


def test_the_rate_leaves_out_the_start():
    """A minute passed before the first examples."""
    describe = running.describe_examples(100)
    assert describe({}, 55.0) == ""
    assert describe({"examples": 10}, 60.0) == "10 of 100 examples"
    assert describe({"examples": 10}, 65.0) == "10 of 100 examples"
    assert describe({"examples": 40}, 70.0) == "40 of 100 examples, 3/s, 20 s left"


def test_libraries_are_quiet_only_while_the_job_runs(capfd):
    before = [logging.getLogger(name).level for name in LOGGERS]

    def step(*_):
        logging.getLogger("apache_beam.somewhere").error("a stack trace")
        logging.getLogger("absl").error("a notice")
        logging.getLogger("of.another.package").warning("no concern of the user's")
        warnings.warn("deprecated", DeprecationWarning, stacklevel=1)

    run(step)
    assert capfd.readouterr().err == ""
    assert [logging.getLogger(name).level for name in LOGGERS] == before


def test_what_a_worker_raises_is_a_sentence(capfd):
    def step(*_):
        raise InputError("--input=x: is empty; name another")

    with pytest.raises(InputError, match="^--input=x: is empty; name another"):
        run(step)
    assert capfd.readouterr().err == ""


def test_a_fault_of_ours_keeps_its_name():
    def step(*_):
        raise ZeroDivisionError("ours")

    with pytest.raises(Exception, match="ours") as raised:
        run(step)
    assert not isinstance(raised.value, InputError)


CONTAINERS = [
    "--runner=DataflowRunner",
    "--runner=PortableRunner --job_endpoint=here:8099",
    "--runner=FlinkRunner --flink_master=here:8081",
    "--runner=FlinkRunner --environment_type=DOCKER",
    "--runner=SparkRunner --spark_master_url=spark://here:7077",
]
SHARING = [
    "--runner=PortableRunner --job_endpoint=here:8099 --environment_type=PROCESS",
    "--runner=FlinkRunner --flink_master=here:8081 --environment_type=EXTERNAL",
]
LOCAL = [
    "",
    "--runner=PrismRunner",
    "--runner=SparkRunner",
    "--runner=FlinkRunner --flink_master=[local]",
    "--runner=PortableRunner --job_endpoint=here:8099 --environment_type=LOOPBACK",
]


@pytest.mark.parametrize("flags", [*CONTAINERS, *SHARING, *LOCAL])
def test_workers_that_cannot_see_a_path(flags, monkeypatch):
    """Before anything is sent: one sentence. Relative paths are those of the command."""
    monkeypatch.chdir("/")
    options = running.beam_options(flags.split())
    if flags in CONTAINERS:
        with pytest.raises(InputError, match=r"^--output=out: .* don't see this machine's files; "):
            running.check_reachable(options, input=("gs://b/*",), output="out")
    else:
        running.check_reachable(options, input=("gs://b/*",), output="out")
    expected = "out" if flags in LOCAL else "/out"
    assert running.path_for_workers("out", options) == expected
    assert running.path_for_workers("gs://b/out", options) == "gs://b/out"


def test_a_worker_that_does_not_see_the_output(tmp_path):
    running.check_visible(str(tmp_path))
    running.check_visible("gs://bucket/out")
    with pytest.raises(InputError, match=r"--output=.*/out: the workers don't see this folder"):
        running.check_visible(str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("total_bytes", "mode", "processes"),
    [(99_999_999, "in_memory", 1), (100_000_000, "multi_processing", 3)],
)
def test_little_input_is_for_one_process(total_bytes, mode, processes):
    flags = [
        "--direct_num_workers=3",
        "--direct_running_mode=multi_processing",
        "--temp_location=x",
    ]
    given = running.beam_options(flags)
    fitting, line = running.fit_processes(given, total_bytes)
    options = fitting.get_all_options()
    assert (options["direct_running_mode"], options["direct_num_workers"]) == (mode, processes)
    assert running.works_here(fitting) == (mode == "in_memory") == ("below 100 MB" in line)
    # Whoever gave the options keeps them.
    assert given.get_all_options()["direct_num_workers"] == 3
    assert fitting.get_all_options(drop_default=True).items() <= given.get_all_options().items()


def test_storage_is_known_before_the_inputs_are_listed(monkeypatch):
    """Beam itself makes its flags known when a pipeline begins."""
    monkeypatch.setattr(FileSystems, "_pipeline_options", None)
    running.beam_options(["--hdfs_host=name-node"])
    options = FileSystems._pipeline_options.view_as(HadoopFileSystemOptions)
    assert options.hdfs_host == "name-node"


def test_every_command_waits_for_its_job():
    with pytest.raises(InputError, match="--no_wait_until_finish: .*; leave it out"):
        running.beam_options(["--no_wait_until_finish"])
