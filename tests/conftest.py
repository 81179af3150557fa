"""Shared fixtures: small real-looking text, and where real data lies on machines that have it."""

import functools
import gc
import os
import pathlib
import signal
import threading

import pytest
from support.sample_text import WORDS

from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Until all tests are collected, what is made stays, and looking for garbage takes seconds.
gc.disable()
# A shell lets what it starts in the background ignore Ctrl-C, which these tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Real data that is not part of the project (Wikipedia text, GLUE, vocabularies); tests that want it
# skip where it is absent.
SHARED_DATA = pathlib.Path(
    os.environ.get(
        "BEAMBERT_TEST_DATA", pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
    )
)
NO_DATA = f"the real data is not in {SHARED_DATA}; set BEAMBERT_TEST_DATA to its folder"


# What trains or serves models takes longest: begun first, no processor waits for it in the end.
LONGEST_FIRST = ("trainer", "deploy", "evaluation", "features", "benchmarks", "model")


def pytest_collection_modifyitems(items):
    """Orders the tests for several processes, each of which takes the next file."""
    items.sort(key=lambda item: not set(item.path.parts).intersection(LONGEST_FIRST))


def pytest_collection_finish():
    gc.enable()


def pytest_unconfigure():
    """pytest looks for garbage ten times at the end of a process, which takes seconds."""
    gc.freeze()


@pytest.fixture
def heeds_hangup():
    """This process and those that it starts don't ignore SIGHUP, as those behind `nohup` do."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(autouse=True, scope="module")
def what_is_there_stays():
    """Graphs live as long as their process; looking through them for garbage takes ever longer."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The folder of real data."""
    if not SHARED_DATA.is_dir():
        pytest.skip(NO_DATA)
    return SHARED_DATA


def pytest_terminal_summary(terminalreporter):
    """Says once how many tests had no real data, rather than once a test."""
    skipped = terminalreporter.stats.get("skipped", [])
    lacking = [report for report in skipped if NO_DATA in str(report.longrepr)]
    if lacking:
        verb = "test was" if len(lacking) == 1 else "tests were"
        terminalreporter.write_line(f"{len(lacking)} {verb} skipped: {NO_DATA}")


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    """Every word of `WORDS`, single letters as starts and continuations, a full stop."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = [*letters, *(f"##{letter}" for letter in letters), ".", ","]
    return Vocabulary((*SPECIAL_TOKENS, *dict.fromkeys([*pieces, *WORDS])), "vocab.txt")


@pytest.fixture(scope="session")
def vocab_file(tmp_path_factory, vocabulary) -> pathlib.Path:
    """The file of the vocabulary, which is only read."""
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_bytes(vocabulary.serialize())
    return path


@pytest.fixture(scope="session")
def untrained(tmp_path_factory, vocabulary):
    """The function from a kind of `untrained_models` to such a folder, which is only read."""
    from support import untrained_models

    @functools.cache
    def make(kind: str) -> pathlib.Path:
        folder = tmp_path_factory.mktemp(kind) / "model"
        return getattr(untrained_models, f"save_{kind}")(folder, vocabulary)

    return make


@pytest.fixture(scope="module")
def storage_environment(tmp_path_factory):
    """The environment in which gs://bucket is on this machine."""
    from support.emulated_storage import emulated_storage

    with emulated_storage(tmp_path_factory.mktemp("storage")) as environment:
        yield environment


@pytest.fixture
def gs(storage_environment, monkeypatch):
    """gs://bucket in this process."""
    from beambert import io

    # Each module has an emulator of its own.
    monkeypatch.setattr(io._GOOGLE_STORAGE, "_of_thread", threading.local())
    for name, value in storage_environment.items():
        monkeypatch.setenv(name, value)
    return "gs://bucket"
