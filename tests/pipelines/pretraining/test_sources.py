"""Sources of a corpus: their names, shares and weights, alone and end to end.

Every second word of a source is one that no other source has, so the records tell where they are
from.
"""

import contextlib
import io
import random

import numpy as np
import pytest
from support import data_command
from support.data_command import (
    body,
    data,
    info,
    read_records,
    refused,
    restored,
    verified,
)
from support.sample_text import WORDS, make_document

from beambert.errors import InputError
from beambert.pipelines.corpus.sources import parse_sources
from beambert.pipelines.input_files import match_inputs
from beambert.pipelines.pretraining.job import PretrainingDataJob
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
    sources, files = Sources.of(patterns, {}), match_inputs(patterns)
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


# The words that tell the sources, and the numbers of documents and of their sentences.
SOURCES = {"wiki": (WORDS[-1], 120, 6), "books": (WORDS[-2], 20, 60), "news": (WORDS[-3], 10, 5)}
WEIGHTS = {"wiki": 0.3, "books": 0.2, "news": 0.5}


def documents_of(word, number, sentences, seed=0):
    generator = random.Random(f"{word} {seed}")
    others = [name for name, *_ in SOURCES.values()]
    made = [make_document(generator, sentences) for _ in range(number)]

    def told(sentence):
        words = [w for w in sentence.lower().rstrip(".").split() if w not in others]
        return f"{word.capitalize()} " + " ".join(f"{w} {word}" for w in words) + "."

    return [[told(sentence) for sentence in document] for document in made]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for name, shape in SOURCES.items():
        documents = documents_of(*shape)
        for half in (0, 1):
            path = folder / f"{name}-{half}.txt"
            path.write_text("\n".join(body(each) for each in documents[half::2]))
    return folder


@pytest.fixture(scope="module")
def flags(texts):
    given = [f"--source={name}={texts}/{name}-0.txt,{texts}/{name}-1*" for name in SOURCES]
    return [*given, "--format=lines", "--num_shards=2"]


WEIGHTED = "--weights=" + ",".join(f"{name}={share}" for name, share in WEIGHTS.items())


def source_of_rows(rows, vocab_file):
    """The source of each record by its words; -1 for several or none."""
    tokens = vocab_file.read_text().split("\n")
    ids = restored(rows)
    there = [(ids == tokens.index(word)).any(axis=1) for word, *_ in SOURCES.values()]
    return np.where(np.sum(there, axis=0) == 1, np.argmax(there, axis=0), -1)


@pytest.fixture(scope="module")
def weighted(tmp_path_factory, flags, vocab_file):
    """A folder, and what the command printed."""
    output, printed = tmp_path_factory.mktemp("weighted") / "records", io.StringIO()
    given = [f"--vocab_file={vocab_file}", f"--output={output}", *data_command.SMALL, *flags]
    with contextlib.redirect_stdout(printed):
        data_command.main([*given, WEIGHTED, "--eval_fraction=0.2"])
    return output, printed.getvalue()


def test_shares_of_the_records_tokens(weighted, vocab_file):
    output, out = weighted
    tokens = vocab_file.read_text().split("\n")
    rows = read_records(output)
    of_rows = source_of_rows(rows, vocab_file)
    # Each pair is of one source.
    assert set(of_rows) == {0, 1, 2}
    ids, special = restored(rows), [tokens.index(t) for t in ("[PAD]", "[CLS]", "[SEP]")]
    text = (~np.isin(ids, special)).sum(axis=1)
    counts = info(output)["counts"]
    for number, (name, share) in enumerate(WEIGHTS.items()):
        mine = text[of_rows == number].sum()
        assert mine / text.sum() == pytest.approx(share, abs=0.005)
        about = counts["sources"][name]
        assert about["record_tokens"] == mine
        assert about["instances"] == (of_rows == number).sum()
        labels = rows["next_sentence_labels"][of_rows == number]
        assert about["is_next"] == (labels == 0).sum()
        assert f"  {name}: {mine / text.sum():.2%} of the tokens ({share:.2%} asked)" in out
    # The held-out folder of each source has its documents alone.
    for number, name in enumerate(SOURCES):
        held_out = read_records(output / "eval" / name)
        assert set(source_of_rows(held_out, vocab_file)) == {number}
        assert info(output / "eval" / name)["counts"]["sources"].keys() == {name}


def test_verify_accounts_by_source(capsys, weighted):
    output, _ = weighted
    status, printed, found = verified(capsys, output, output.parent / "report")
    assert status == 0
    assert found["faults"] == 0 and len(found["folders"]) == 4
    assert [folder["held_out_of"] for folder in found["folders"]] == [None, *[str(output)] * 3]
    assert "source wiki" in printed
    # The few news are gone over so often that their text occurs more often than dupe_factor says.
    assert info(output)["counts"]["sources"]["news"]["passes"] > 20
    assert "repeat text of another document" not in printed


def test_without_weights_every_source_has_the_same_passes(capsys, tmp_path, flags, vocab_file):
    assert data(capsys, vocab_file, tmp_path / "out", *flags, "--pairs=none")[0] == 0
    counts = info(tmp_path / "out")["counts"]
    for source in counts["sources"].values():
        assert source["passes"] == 2 and source["record_tokens"] == 2 * source["tokens"]
        assert "asked_share" not in source
    rows = read_records(tmp_path / "out")
    assert (source_of_rows(rows, vocab_file) >= 0).all()


@pytest.mark.slow
def test_a_copy_is_of_the_earlier_source(capsys, tmp_path, vocab_file):
    """The news are the books again, with other words here and there."""
    books = documents_of(WORDS[-2], 12, 30)
    copies = [list(each) for each in books]
    for each in copies:
        each[-1] = "The river began in the north."
    own = documents_of(WORDS[-3], 2, 9)
    (tmp_path / "books").write_text("\n".join(map(body, books)))
    (tmp_path / "news").write_text("\n".join(map(body, [*copies, *own])))
    for order in (("books", "news"), ("news", "books")):
        output = tmp_path / "-".join(order)
        given = [f"--source={name}={tmp_path}/{name}" for name in order]
        given += ["--format=lines", "--duplicates=near"]
        result = data(capsys, vocab_file, output, *given, "--num_shards=1")
        if order[0] == "books":
            assert result[0] == 0
            counts = info(output)["counts"]
            found = {name: source["documents"] for name, source in counts["sources"].items()}
            assert found == {"books": 12, "news": 2}
        else:  # No book is left for the later source.
            refused(result, "--source=books: no document of it gave an instance")
            assert not (output / "_SUCCESS").exists()


class TestRefused:
    @pytest.mark.parametrize(
        ("given", "part"),
        [
            (["--temperature=0.5", WEIGHTED], "--temperature=0.5: --weights has the shares"),
            (["--max_epochs_per_source=1", WEIGHTED], "must be at least --dupe_factor, which is 2"),
            (["--input=x"], "--input=x"),
            (["--source=wiki=x"], "wiki is the name of another source"),
            (["--source=more=nothing*"], "--source=more=nothing*: matches no file"),
        ],
    )
    def test_flags(self, capsys, tmp_path, flags, vocab_file, given, part):
        output = tmp_path / "out"
        refused(data(capsys, vocab_file, output, *flags, *given), part)
        assert not output.exists()

    def test_a_source_whose_files_are_of_another(self, capsys, tmp_path, flags, texts, vocab_file):
        given = [f"--source=again={texts}/wiki*"]
        result = data(capsys, vocab_file, tmp_path / "out", *flags, *given)
        refused(result, "--source=again: has no file to read, because an earlier source")

    def test_other_weights_are_another_job(self, capsys, weighted, flags, vocab_file):
        output, _ = weighted
        given = [*flags, "--eval_fraction=0.2"]
        status, out, _ = data(capsys, vocab_file, output, *given, WEIGHTED)
        assert status == 0 and "already finished" in out
        refused(data(capsys, vocab_file, output, *given, "--temperature=0.5"), "parameters.weights")
        # The order of the sources counts, since a file or document of several is of the first.
        swapped = [given[1], given[0], *given[2:], WEIGHTED]
        refused(data(capsys, vocab_file, output, *swapped), "parameters.source")


@pytest.mark.slow
def test_later_runs_mix_the_sources_with_new_files(capsys, tmp_path, texts, vocab_file):
    """Those without one are named and left out; the weights of the others stay in proportion."""
    folders = {name: tmp_path / name for name in SOURCES}
    for name, folder in folders.items():
        folder.mkdir()
        (folder / "0.txt").write_bytes((texts / f"{name}-0.txt").read_bytes())
    flags = [f"--source={name}={folder}/*" for name, folder in folders.items()]
    flags += [WEIGHTED, "--format=lines", "--num_shards=1"]
    assert data(capsys, vocab_file, tmp_path / "1", *flags)[0] == 0
    for name in ("wiki", "news"):
        (folders[name] / "1.txt").write_bytes((texts / f"{name}-1.txt").read_bytes())
    flags += ["--eval_fraction=0.2", f"--since={tmp_path}/1"]
    status, out, err = data(capsys, vocab_file, tmp_path / "2", *flags)
    assert (status, err) == (0, "")
    assert "--source=books: no file that is new since then; the others are mixed" in out
    assert [one_input["path"] for one_input in info(tmp_path / "2")["inputs"]] == [
        str(folders[name] / "1.txt") for name in ("news", "wiki")
    ]
    counts = info(tmp_path / "2")["counts"]["sources"]
    asked = {name: count["asked_share"] for name, count in counts.items()}
    assert asked == {"wiki": 0.375, "news": 0.625}
    assert set(source_of_rows(read_records(tmp_path / "2"), vocab_file)) == {0, 2}
    held_out = tmp_path / "2" / "eval"
    assert sorted(folder.name for folder in held_out.iterdir()) == ["news", "wiki"]
    # Given again, the job is finished; without any new file there is nothing to do.
    assert "already finished" in data(capsys, vocab_file, tmp_path / "2", *flags)[1]
    flags[-1] = f"--since={tmp_path}/[12]"
    assert "nothing new" in data(capsys, vocab_file, tmp_path / "3", *flags)[1]


def test_mixtures_are_mappings_in_python():
    of = {"vocab_file": "v", "output": "o"}
    shares = {"wiki/*/a_*": 0.5, "books/x.txt": 0.25, "wiki/b/*": 0.25}
    job = PretrainingDataJob(**of, input=shares)
    assert job.patterns == tuple(shares) and job.mixture.weights == dict(
        zip(("wiki", "x", "b"), shares.values(), strict=True)
    )
    given = {"source": {"a": "x*", "b": ["y", "z"]}, "weights": {"a": 0.25, "b": 0.75}}
    written = {"source": ("a=x*", "b=y,z"), "weights": "a=0.25,b=0.75"}
    assert PretrainingDataJob(**of, **given) == PretrainingDataJob(**of, **written)
    same = PretrainingDataJob(**of, input={"c/*": 0.5, "d/c/*": 0.5})
    assert list(same.sources) == ["c", "c-2"]
    with pytest.raises(InputError, match="must add up to 1"):
        PretrainingDataJob(**of, input={"a": 0.5})
