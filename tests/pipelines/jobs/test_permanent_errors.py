"""An error that no retry mends: a worker tells it once, and the job that is waited for ends."""

import io
import logging
import threading

import apache_beam as beam
import pytest
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.options.pipeline_options import PipelineOptions

from beambert.console import input_error_in
from beambert.errors import InputError, LostClaimError
from beambert.pipelines.files import beam_files
from beambert.pipelines.jobs import permanent_errors, running
from beambert.pipelines.jobs.permanent_errors import (
    NotingDoFn,
    cancelled_on_error,
    error_path,
    note_errors,
)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(permanent_errors, "SECONDS_BETWEEN_LOOKS", 0.01)


def noted(path):
    return NotingDoFn(beam.DoFn(), path).noted()


class Job:
    """A job of a runner that tries again for ever, until it is cancelled."""

    def __init__(self):
        self.cancelled, self.done = threading.Event(), threading.Event()
        self.attempts = 0

    def wait(self, work):
        while not self.cancelled.wait(0.02):
            self.attempts += 1
            try:
                work()
                if self.done.is_set():
                    return
            except InputError as error:
                logging.getLogger("apache_beam.x").error(
                    "Traceback …\nerrors.InputError: %s", error
                )
        raise RuntimeError("job was cancelled")


def test_the_job_is_cancelled_and_the_error_said_once(tmp_path):
    path, job = error_path(str(tmp_path)), Job()
    handler = logging.StreamHandler(stream := io.StringIO())
    logging.getLogger().addHandler(handler)

    def work():
        with noted(path):
            raise InputError("--input=a: is gone; mend that")

    try:
        with (
            pytest.raises(InputError, match="^--input=a: is gone; mend that$"),
            cancelled_on_error(path, job.cancelled.set),
        ):
            job.wait(work)
    finally:
        logging.getLogger().removeHandler(handler)
    assert 1 <= job.attempts < 100
    assert "InputError" not in stream.getvalue()


def test_an_error_that_ends_the_job_first_is_told_too(tmp_path):
    path = error_path(str(tmp_path))
    with pytest.raises(InputError, match="^ours$"), cancelled_on_error(path, pytest.fail):
        with pytest.raises(InputError), noted(path):
            raise InputError("ours")
        raise RuntimeError("the runner's words")


def test_a_job_without_errors_is_left_alone(tmp_path):
    path = error_path(str(tmp_path))
    with cancelled_on_error(path, pytest.fail), noted(path):
        logging.getLogger().warning("other words")
    # Faults of ours are not written, nor are errors when nobody waits for the job any more.
    with pytest.raises(ZeroDivisionError), noted(path):
        raise ZeroDivisionError
    with pytest.raises(InputError), noted(path):
        raise LostClaimError("theirs")
    with pytest.raises(InputError), noted(error_path(str(tmp_path / "gone"))):
        raise InputError("ours")
    assert list(tmp_path.iterdir()) == []


def test_what_may_pass_is_left_to_the_next_try(tmp_path, monkeypatch):
    path, job = error_path(str(tmp_path)), Job()
    renamed = beam_files.rename

    def reset_once(*names):
        monkeypatch.setattr(beam_files, "rename", renamed)
        raise ConnectionResetError("Connection reset by peer")

    monkeypatch.setattr(beam_files, "rename", reset_once)

    def work():
        with noted(path):
            beam_files.write_bytes(str(tmp_path / "part"), b"all")
        job.done.set()

    with cancelled_on_error(path, pytest.fail):
        job.wait(work)
    assert job.attempts == 2
    assert [path.name for path in tmp_path.iterdir()] == ["part"]


def refuse(*_):
    raise InputError("a: is bad; mend it")


class InSetup(beam.DoFn):
    def setup(self):
        refuse()

    def process(self, element):
        return [element]


class WhileYielding(beam.DoFn):
    def process(self, element, window=beam.DoFn.WindowParam):
        yield window
        refuse()


class AtTheEnd(beam.DoFn):
    def process(self, element):
        return [element]

    def finish_bundle(self):
        refuse()


class OfModel(ModelHandler):
    def load_model(self):
        refuse()

    def run_inference(self, batch, model, inference_args=None):
        return batch


STEPS = {
    "map": lambda words: words | beam.Map(refuse),
    "filter": lambda words: words | beam.Filter(refuse),
    "side input": lambda words: words | beam.Map(refuse, beam.pvalue.AsList(words)),
    "setup": lambda words: words | beam.ParDo(InSetup()),
    "generator": lambda words: words | beam.ParDo(WhileYielding()),
    "end of bundle": lambda words: words | beam.ParDo(AtTheEnd()),
    "inference": lambda words: words | RunInference(OfModel()),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_every_kind_of_step_writes_its_error(tmp_path, step):
    with pytest.raises(Exception, match="a: is bad"), beam.Pipeline("FnApiRunner") as pipeline:
        step(pipeline | beam.Create(["a"]))
        note_errors(pipeline, error_path(str(tmp_path)))
    assert [file.read_text() for file in tmp_path.iterdir()] == ["a: is bad; mend it"]


def test_an_error_of_setup_comes_with_the_first_element(tmp_path):
    """Flink hears of an earlier one after three minutes, and then not what it was."""
    for folder, sentence in ((tmp_path, "a: is bad"), (tmp_path / "gone", "the workers don't see")):
        step = NotingDoFn(InSetup(), error_path(str(folder)))
        step.setup()
        step.start_bundle()
        with pytest.raises(InputError, match=sentence):
            step.process("a")
        with pytest.raises(InputError, match=sentence):
            step.finish_bundle()
    assert [file.read_text() for file in tmp_path.iterdir()] == ["a: is bad; mend it"]


def test_the_command_tells_the_error_of_a_worker_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "has_local_workers", lambda options: False)
    noted, told = [], beam_files.write_bytes
    monkeypatch.setattr(
        permanent_errors, "write_bytes", lambda *given: noted.append(given[1]) or told(*given)
    )

    def build(pipeline, _):
        pipeline | beam.Create(["a"]) | beam.Map(refuse)

    options = PipelineOptions(["--runner=FnApiRunner"])
    with pytest.raises(InputError, match="^a: is bad; mend it$"):
        running.run_job(build, options, str, 1, "files", output=str(tmp_path))
    assert noted == [b"a: is bad; mend it"]
    assert list(tmp_path.iterdir()) == []


def test_noting_changes_no_result(tmp_path):
    """Sums, side inputs, windows, tagged outputs and files of Beam's own steps are as without."""
    with beam.Pipeline("FnApiRunner") as pipeline:
        words = pipeline | beam.Create(["a", "b", "a"])
        counts = words | beam.combiners.Count.PerElement()
        most = counts | "Values" >> beam.Values() | beam.CombineGlobally(max)
        tagged = counts | beam.ParDo(Tagging(), beam.pvalue.AsSingleton(most)).with_outputs(
            "most", main="rest"
        )
        for name, each in (("most", tagged.most), ("rest", tagged.rest)):
            each | f"Write {name}" >> beam.io.WriteToText(
                f"{tmp_path}/{name}", shard_name_template=""
            )
        note_errors(pipeline, error_path(str(tmp_path)))
    found = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert found == {"most": "a 2 GlobalWindow\n", "rest": "b 1 GlobalWindow\n"}


class Tagging(beam.DoFn):
    def process(self, count, most, window=beam.DoFn.WindowParam):
        line = f"{count[0]} {count[1]} {window}"
        yield beam.pvalue.TaggedOutput("most", line) if count[1] == most else line


def test_noting_bears_the_check_of_types(tmp_path):
    options = PipelineOptions(["--runner=FnApiRunner", "--runtime_type_check"])
    with beam.Pipeline(options=options) as pipeline:
        pipeline | beam.Create([1]) | beam.Reshuffle() | beam.Map(str).with_output_types(str)
        note_errors(pipeline, error_path(str(tmp_path)))


def test_a_lost_folder_is_told_by_a_runner_too():
    text = "beambert.errors.LostClaimError: --output=a: is lost [while running 'x']"
    assert str(input_error_in(RuntimeError(text))) == "--output=a: is lost"
