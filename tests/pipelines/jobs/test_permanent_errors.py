"""An error that no retry mends: a worker tells it once, and the job that is waited for ends."""

import io
import logging
import threading

import pytest

from beambert.pipelines.files import beam_files
from beambert.pipelines.jobs import permanent_errors
from beambert.pipelines.jobs.permanent_errors import cancelled_on_error, error_path, noted
from beambert.pipelines.shared.errors import InputError


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(permanent_errors, "SECONDS_BETWEEN_LOOKS", 0.01)


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
    path, job = error_path(str(tmp_path), "run"), Job()
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
    assert list(tmp_path.iterdir()) == []
    assert "InputError" not in stream.getvalue()


def test_an_error_that_ends_the_job_first_is_told_too(tmp_path):
    path = error_path(str(tmp_path), "run")
    with pytest.raises(InputError, match="^ours$"), cancelled_on_error(path, pytest.fail):
        with pytest.raises(InputError), noted(path):
            raise InputError("ours")
        raise RuntimeError("the runner's words")


def test_a_job_without_errors_is_left_alone(tmp_path):
    with cancelled_on_error(error_path(str(tmp_path), "run"), pytest.fail), noted("nowhere"):
        logging.getLogger().warning("other words")
    # Faults of ours, and those of local jobs, are not written.
    with pytest.raises(ZeroDivisionError), noted(str(tmp_path / "x")):
        raise ZeroDivisionError
    with pytest.raises(InputError), noted(""):
        raise InputError("ours")
    assert list(tmp_path.iterdir()) == []


def test_what_may_pass_is_left_to_the_next_try(tmp_path, monkeypatch):
    path, job = error_path(str(tmp_path), "run"), Job()
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
