"""The sources of a corpus: the patterns of --input, the values of --source, and their shares."""

import pytest

from beambert.errors import InputError
from beambert.pipelines.corpus.sources import parse_sources
from beambert.pipelines.input_files import match_inputs
from beambert.pipelines.pretraining.mixture import Mixture, parse_weights
from beambert.pipelines.pretraining.plan import Sources


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
        (["../x=c"], "must begin with a name"),
        (["wiki=a", "wiki=b"], "wiki is the name of another source"),
    ],
)
def test_sources_that_are_refused(given, message):
    with pytest.raises(InputError, match="^--source=") as refused:
        parse_sources(given)
    assert message in str(refused.value)


NAMES = ("wiki", "books", "news")


def shares_of(passes, sizes):
    tokens = [number * size for number, size in zip(passes, sizes, strict=True)]
    return [token / sum(tokens) for token in tokens]


def test_weights_are_shares_of_the_tokens():
    weights = {"wiki": 0.2, "books": 0.7, "news": 0.1}
    sizes = [1_000_000, 50_000, 333]
    passes = Mixture(NAMES, weights).passes(sizes, dupe_factor=4)
    assert shares_of(passes, sizes) == pytest.approx([0.2, 0.7, 0.1])
    # The records have as many tokens as those of four passes.
    assert sum(n * size for n, size in zip(passes, sizes, strict=True)) == pytest.approx(
        4 * sum(sizes)
    )


def test_temperature_is_the_exponent_of_xlm():
    """XLM, section 3.1: the example's shares by q_i = p_i^a / sum p_j^a, computed by hand.

    p = (0.8, 0.1, 0.1) and a = 0.5: roots 0.894427, 0.316228, 0.316228, of which the sum is
    1.526883.
    """
    sizes = [8000, 1000, 1000]
    expected = [0.585786, 0.207107, 0.207107]
    assert Mixture(NAMES, temperature=0.5).shares(sizes) == pytest.approx(expected, abs=1e-6)
    assert Mixture(NAMES, temperature=0.0).shares(sizes) == pytest.approx([1 / 3] * 3)
    assert Mixture(NAMES, temperature=1.0).passes(sizes, 5) == pytest.approx([5.0] * 3)


def test_the_greatest_number_of_passes():
    weights = {"wiki": 0.2, "books": 0.4, "news": 0.4}
    sizes = [10_000, 10_000, 100]
    passes = Mixture(NAMES, weights, max_epochs=10).passes(sizes, dupe_factor=2)
    assert passes[2] == 10
    # The two others share what is left as 0.2 to 0.4, and the amount is the same.
    assert passes[1] / passes[0] == pytest.approx(2)
    assert sum(n * size for n, size in zip(passes, sizes, strict=True)) == pytest.approx(2 * 20_100)


def test_a_source_without_a_token_is_refused():
    with pytest.raises(InputError, match=r"--source=news: no document of it gave an instance"):
        Mixture(NAMES, temperature=0.5).passes([5, 5, 0], 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wiki=0.5,books=0.4", "must give each --source (wiki, books, news) one number"),
        ("wiki=0.5,books=0.4,news=0.05,news=0.05", "must give each --source"),
        ("wiki=0.5,books=x,news=0.1", "must give each --source"),
        ("wiki=0.5,books=0.4,news=0.2", "they add up to 1.1, but must add up to 1"),
        ("wiki=0.5,books=0.4,news=0.104", "they add up to 1.004, but must add up to 1"),
        ("wiki=nan,books=1,news=0", "must give each --source"),
    ],
)
def test_weights_that_are_refused(text, message):
    with pytest.raises(InputError, match="^--weights") as refused:
        parse_weights(text, NAMES)
    assert message in str(refused.value)


def test_thirds_with_few_digits_are_weights():
    weights = parse_weights("wiki=.3333333,books=.3333333,news=.3333333", NAMES)
    assert set(weights) == set(NAMES)
    assert parse_weights("", NAMES) == {}
