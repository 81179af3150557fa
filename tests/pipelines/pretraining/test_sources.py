"""The sources of a corpus: the patterns of --input, and the values of --source."""

import pytest

from beambert.errors import InputError
from beambert.pipelines.corpus.sources import parse_sources
from beambert.pipelines.input_files import match_inputs
from beambert.pipelines.pretraining.inputs import Sources


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    for name in ("wiki/AA/wiki_00", "wiki/AB/wiki_00", "books/a.txt", "books/b.txt", "one.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sources_of(corpus, *patterns):
    """Names, and file -> name."""
    sources, files = Sources.of(patterns), match_inputs(patterns)
    names = {file.path.removeprefix(f"{corpus}/"): sources.number_of(file.path) for file in files}
    return sources.names, {path: sources.names[number] for path, number in names.items()}


def test_a_pattern_is_a_source(corpus):
    names, paths = sources_of(corpus, "wiki/*/wiki_*", f"{corpus}/books/*.txt")
    assert names == ["wiki/*/wiki_*", f"{corpus}/books/*.txt"]
    assert paths == {
        "wiki/AA/wiki_00": names[0],
        "wiki/AB/wiki_00": names[0],
        "books/a.txt": names[1],
        "books/b.txt": names[1],
    }


def test_files_as_a_shell_gives_them_are_of_their_folder(corpus):
    names, paths = sources_of(corpus, "books/a.txt", "books/b.txt", "one.txt")
    assert names == ["books", "."]
    assert paths == {"books/a.txt": "books", "books/b.txt": "books", "one.txt": "."}


def test_the_first_pattern_counts(corpus):
    assert sources_of(corpus, "books/a*", "books/*")[1] == {
        "books/a.txt": "books/a*",
        "books/b.txt": "books/*",
    }


def test_a_name_may_look_like_a_pattern(corpus):
    (corpus / "books" / "x[1].txt").write_text("text\n")
    _, paths = sources_of(corpus, "books/x[1].txt", "wiki/AA/*")
    assert paths["books/x[1].txt"] == "books/x[1].txt"


def test_sources():
    given = ["wiki=a/*,b/*", "books=c=d.txt"]
    assert parse_sources(given) == {"wiki": ("a/*", "b/*"), "books": ("c=d.txt",)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["wiki"], "has an empty pattern"),
        (["a/b=c"], "must begin with a name"),
        (["../x=c"], "must begin with a name"),
        (["wiki=a", "wiki=b"], "wiki is the name of another source"),
    ],
)
def test_sources_that_are_refused(given, message):
    with pytest.raises(InputError, match="^--source=") as refused:
        parse_sources(given)
    assert message in str(refused.value)
