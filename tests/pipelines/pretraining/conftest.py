"""A small corpus, its vocabulary and its records."""

import contextlib
import io
import random

import pytest
from support.data_command import SMALL, main, run_main, wikiextractor
from support.sample_text import make_document


@pytest.fixture(scope="module")
def corpus():
    """80 documents, each a list of sentences; two without a word, as redirects are."""
    generator = random.Random(0)
    documents = [make_document(generator, generator.randint(1, 12)) for _ in range(80)]
    return [*documents, [], []]


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory, corpus):
    path = tmp_path_factory.mktemp("corpus") / "wiki_00"
    path.write_text(wikiextractor(corpus))
    return path


@pytest.fixture(scope="module")
def records(tmp_path_factory, corpus_file, vocab_file):
    """A finished folder with a held-out part, made as a user would make it."""
    output = tmp_path_factory.mktemp("records") / "out"
    flags = [f"--vocab_file={vocab_file}", f"--input={corpus_file}", f"--output={output}", *SMALL]
    printed, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(error):
        status = run_main("data", main, [*flags, "--num_shards=3", "--eval_fraction=0.25"])
    assert (status, error.getvalue()) == (0, "")
    assert f"{output}: " in printed.getvalue() and "are next" in printed.getvalue()
    return output
