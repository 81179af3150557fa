"""The one way to run a pipeline: progress, quiet libraries, errors as sentences, totals."""

import logging
import random
import re
import time
import warnings
from collections import Counter

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beambert import console
from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.pipelines import running
from beambert.pipelines.corpus.reading import MOST_REJECTS, first_rejects
from beambert.pipelines.running import add_counts, total_of

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


def test_every_command_waits_for_its_job():
    with pytest.raises(InputError, match="--no_wait_until_finish: .*; leave it out"):
        running.beam_options(["--no_wait_until_finish"])


def test_in_a_pipeline_and_of_nothing():
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        counts = pipeline | "Counts" >> beam.Create([Counter(a=1, b=-1)] * 100)
        none = pipeline | "None" >> beam.Create([])
        found = (
            pipeline
            | beam.Create([None])
            | beam.Map(
                lambda _, *totals: list(totals),
                total_of(counts, "Sum", add_counts),
                total_of(none, "SumNone", add_counts),
            )
        )
        assert_that(found, equal_to([[Counter(a=100, b=-100), Counter()]]))


def test_few_rejects_are_told_of_many():
    rows = [f"{i:06d}" for i in range(3 * MOST_REJECTS)]
    random.Random(1).shuffle(rows)
    halves = [first_rejects([[row] for row in rows[i::2]]) for i in range(2)]
    assert first_rejects(halves) == sorted(rows)[:MOST_REJECTS]
