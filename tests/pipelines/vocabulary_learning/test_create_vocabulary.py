"""The vocab command end to end, and tokens that are added to a vocabulary."""

import itertools
import json
import random

import apache_beam as beam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sample_text import make_document

from beambert.cli import run_main
from beambert.errors import InputError
from beambert.pipelines.create_vocabulary import main
from beambert.pipelines.tokenizers.pieces import cut, longest_of
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from beambert.pipelines.tokenizers.word_pieces import Tokenizer, words_of
from beambert.pipelines.vocabulary_learning import graph as word_counts
from beambert.pipelines.vocabulary_learning import run
from beambert.pipelines.vocabulary_learning.graph import LearnVocabulary
from beambert.pipelines.vocabulary_learning.job import VocabularyJob
from beambert.pipelines.vocabulary_learning.learning import (
    choose_pieces,
    extend_vocabulary,
    tokens_of,
)

_TEXT = "river city music house people world film team game song album school north village"
STEMS = _TEXT.split()
ENDINGS = ("", "s", "ing", "ed", "er", "less", "ness", "ly")


@pytest.fixture(scope="module")
def documents():
    generator = random.Random(0)
    made = ["".join(pair) for pair in ((s, e) for s in STEMS for e in ENDINGS)]
    return [
        "\n".join([*make_document(generator, 5), " ".join(generator.choices(made, k=60)) + ".\n"])
        for _ in range(30)
    ]


def vocab(capsys, output, *arguments):
    status = run_main("vocab", main, [f"--output={output}", *map(str, arguments)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def refused(result, *parts):
    status, _, error = result
    assert status == 2 and error.count("\n") == 1 and error.startswith("beambert vocab: ")
    for part in parts:
        assert str(part) in error


def write(folder, documents, files):
    folder.mkdir(exist_ok=True)
    for i in range(files):
        rows = [json.dumps({"text": text}) + "\n" for text in documents[i::files]]
        (folder / f"{i}.jsonl").write_text("".join(rows))
    return f"--input={folder}/*.jsonl"


@pytest.fixture(scope="module")
def learned(tmp_path_factory, documents):
    folder = tmp_path_factory.mktemp("vocab")
    source = write(folder / "corpus", documents, 1)
    output = folder / "vocab.txt"
    assert run_main("vocab", main, [source, f"--output={output}", "--vocab_size=300"]) == 0
    return output, source


def test_size_and_special_tokens(learned):
    tokens = learned[0].read_text().split("\n")
    assert tokens.pop() == ""
    assert len(tokens) == len(set(tokens)) == 300
    assert tuple(tokens[:5]) == SPECIAL_TOKENS
    assert all(token == token.lower() for token in tokens[5:])


def test_every_word_has_pieces(learned, documents):
    vocabulary = Vocabulary.parse(learned[0].read_bytes(), "vocab.txt")
    words = [word for document in documents for word in words_of(document, True)]
    ids, _ = Tokenizer(vocabulary, True).tokenize_batch(sorted(set(words)))
    assert vocabulary.id_of("[UNK]") not in ids
    # It is no alphabet: frequent words are tokens.
    assert sum(word in vocabulary.tokens for word in set(words)) > 50


def test_file_beside_it_says_what_it_was_learned_from(learned, documents):
    about = json.loads((learned[0].parent / "vocab.txt.json").read_text())
    vocabulary = Vocabulary.parse(learned[0].read_bytes(), "vocab.txt")
    words = [word for document in documents for word in words_of(document, True)]
    assert about["sha256"] == vocabulary.sha256
    assert about["counts"]["documents"] == 30
    assert about["counts"]["words"] == len(words)
    assert about["counts"]["distinct_words"] == len(set(words))
    assert about["parameters"]["vocab_size"] == 300


def test_order_of_files_and_documents_doesnt_matter(capsys, tmp_path, learned, documents):
    source = write(tmp_path / "corpus", documents[::-1], 3)
    assert vocab(capsys, tmp_path / "v.txt", source, "--vocab_size=300")[0] == 0
    assert (tmp_path / "v.txt").read_bytes() == learned[0].read_bytes()


@pytest.mark.slow
def test_partitions_and_flushes_dont_matter(tmp_path, monkeypatch, documents):
    """There are 64 partitions, one for ten bytes, or as many as for documents."""
    source = write(tmp_path / "corpus", documents, 3).removeprefix("--input=")
    pack_counts, used = word_counts.pack_counts, set()

    def pack(words, partitions):
        used.add(partitions)
        return pack_counts(words, partitions)

    def learn(folder, begin, patterns):
        job = VocabularyJob(output=f"{tmp_path}/{folder}/v.txt", input=patterns, vocab_size=400)
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            _ = begin(pipeline) | LearnVocabulary(job)
        return (tmp_path / folder / "v.txt").read_bytes()

    monkeypatch.setattr(word_counts, "pack_counts", pack)
    few = learn("few", lambda pipeline: pipeline, (source,))
    assert learn("documents", lambda pipeline: pipeline | beam.Create(documents), ()) == few
    monkeypatch.setattr(word_counts, "BYTES_PER_PARTITION", 10)
    monkeypatch.setattr(word_counts, "MOST_WORDS", 10)
    monkeypatch.setattr(word_counts, "MOST_STRINGS", 100)
    assert learn("many", lambda pipeline: pipeline, (source,)) == few
    size = sum(path.stat().st_size for path in (tmp_path / "corpus").iterdir())
    assert used == {64, 1024, size // 10} and size // 10 > 1024


def test_same_command_again_is_nothing_to_do(capsys, learned):
    output, source = learned
    before = output.stat().st_mtime_ns
    status, out, err = vocab(capsys, output, source, "--vocab_size=300")
    assert (status, err) == (0, "") and "already finished" in out
    assert output.stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["v.txt", "v.txt-rejects.jsonl"])
def test_somebody_elses_file_is_refused(capsys, tmp_path, learned, name):
    (tmp_path / name).write_text("mine")
    refused(vocab(capsys, tmp_path / "v.txt", learned[1]), tmp_path / name)
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.slow
def test_rejects_are_said_and_listed(capsys, tmp_path):
    rows = [json.dumps({"text": "a river in the north"}), '{"text": 1}', '{"text": "a city"}']
    (tmp_path / "a.jsonl").write_text("\n".join(rows) + "\n")
    flags = [f"--input={tmp_path}/a.jsonl", "--vocab_size=200"]
    beside = tmp_path / "v.txt-rejects.jsonl"
    refused(vocab(capsys, tmp_path / "v.txt", *flags), "1 of 3 documents")
    assert not beside.exists()  # The message has all.
    (tmp_path / "b.jsonl").write_text("\n".join(rows + rows) + "\n")
    refused(vocab(capsys, tmp_path / "v.txt", f"--input={tmp_path}/b.jsonl", flags[1]), beside)
    beside.unlink()
    status, out, _ = vocab(capsys, tmp_path / "v.txt", *flags, "--max_reject_fraction=0.5")
    assert status == 0 and "in 2 documents" in out
    assert f"1 of 3 documents rejected, see {beside}" in out
    (reject,) = map(json.loads, beside.read_text().splitlines())
    assert reject["line"] == 2 and reject["file"] == f"{tmp_path}/a.jsonl"
    counts = json.loads((tmp_path / "v.txt.json").read_text())["counts"]
    assert (counts["documents"], counts["rejected"]) == (2, 1)


def test_what_shows_at_once_is_refused_before_any_file_is_read(capsys, tmp_path, monkeypatch):
    """An output that cannot be written, and files without a byte."""

    def read(*_):
        raise AssertionError("read before the checks")

    monkeypatch.setattr(run, "recognise_formats", read)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty.txt").write_text("")
    output = tmp_path / "file" / "v.txt"
    refused(vocab(capsys, output, f"--input={tmp_path}/file"), output, "cannot be written")
    result = vocab(capsys, tmp_path / "v.txt", f"--input={tmp_path}/empty.txt")
    refused(result, "no words in 1 file")
    assert result[1] == "" and not (tmp_path / "v.txt.json").exists()


def test_sources_are_the_files_of_all(capsys, tmp_path, documents):
    """The same files by another flag are the same job."""
    for name, part in (("wiki", documents[:15]), ("law", documents[15:])):
        write(tmp_path / name, part, 2)
    given = [f"--source=wiki={tmp_path}/wiki/*,{tmp_path}/law/0.jsonl"]
    given.append(f"--source=law={tmp_path}/law/*")
    status, printed, _ = vocab(capsys, tmp_path / "vocab.txt", *given, "--vocab_size=300")
    assert status == 0 and "in 30 documents" in printed and printed.startswith("4 files")
    same = (f"--input={tmp_path}/wiki/*", f"--input={tmp_path}/law/*", "--vocab_size=300")
    status, printed, _ = vocab(capsys, tmp_path / "vocab.txt", *same)
    assert status == 0 and "already finished" in printed
    refused(vocab(capsys, tmp_path / "v.txt", *given, *same), "--input=", "--source")
    refused(vocab(capsys, tmp_path / "v.txt"), "--input: missing", "or give --source")
    refused(vocab(capsys, tmp_path / "v.txt", "--source=law"), "--source=law: ")


@pytest.mark.parametrize(
    ("kind", "output", "message"),
    [
        ("bpe", "t/vocab.txt", "makes a tokenizer.json; name a file so"),
        ("wordpiece", "t/tokenizer.json", "makes a vocab.txt; name a file"),
    ],
)
def test_an_output_is_named_for_its_kind(kind, output, message):
    """Whoever reads the file next decides by its name."""
    with pytest.raises(InputError, match=f"^--output={output}: --kind={kind} {message}"):
        VocabularyJob(output=output, kind=kind)


LETTERS = "abcd"
PIECES = [*LETTERS, *(f"##{letter}" for letter in LETTERS), "ab", "##cd", "abc"]
exact = settings(derandomize=True, max_examples=30, deadline=None, database=None)
words = st.dictionaries(st.text(LETTERS, min_size=1, max_size=9), st.integers(1, 20), max_size=12)


@pytest.mark.slow
@exact
@given(words)
def test_words_are_cut_as_by_the_tokenizer(counts):
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *PIECES))
    ids, lengths = Tokenizer(vocabulary, True).tokenize_batch(list(counts))
    for word, of_word in zip(counts, np.split(ids, np.cumsum(lengths)[:-1]), strict=False):
        assert cut(word, PIECES, longest_of(PIECES)) == [vocabulary.tokens[n] for n in of_word]


@exact
@given(words)
def test_one_piece_is_the_best_of_all_joins(counts):
    """Against trying each substring of each word."""
    candidates = {
        mark + word[start:end]
        for word in counts
        for start, end in itertools.combinations(range(len(word) + 1), 2)
        for mark in ("" if start == 0 else "##",)
    } - set(PIECES)
    before = tokens_of(PIECES, counts)
    chosen = choose_pieces(PIECES, counts, 1)
    saved = before - tokens_of([*PIECES, *chosen], counts)
    best = max((before - tokens_of([*PIECES, each], counts) for each in candidates), default=0)
    assert bool(chosen) == (saved > 0) == (best > 0)
    # A piece that is also found elsewhere may save more, or less, than where it was joined.
    assert saved >= 0.7 * best


TEXT = "The hepatitis of hepatocytes is a hepatic matter. Hepatitis is hepatitis."


@pytest.fixture
def old(tmp_path):
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = [*SPECIAL_TOKENS, *letters, *(f"##{letter}" for letter in letters), ".", "the", "is"]
    (tmp_path / "old.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "old.txt"


def flags(old, **others) -> list[str]:
    values = {
        "input": old.with_name("text.txt"),
        "extend": old,
        "output": old.with_name("new.txt"),
    } | others
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def test_old_tokens_stay_and_new_ones_save_what_is_said(old, capsys):
    main(flags(old, add=3))
    lines = old.with_name("new.txt").read_text().splitlines()
    before = old.read_text().splitlines()
    assert lines[: len(before)] == before
    assert lines[len(before)] == "hepatitis" and len(lines) == len(before) + 3
    told = capsys.readouterr().out.splitlines()[-1]
    said = json.loads(old.with_name("new.txt.json").read_text())["counts"]
    for tokens, name in ((before, "tokens_before"), (lines, "tokens_after")):
        ids, _ = Tokenizer(Vocabulary(tuple(tokens)), True).tokenize_batch([TEXT])
        assert len(ids) == said[name]
    assert said["counted_words"] == 13
    assert f"3 of them new; {said['tokens_after'] / 13:.3f} tokens a word instead of" in told
    main(flags(old, add=3))
    assert "already finished by the same command" in capsys.readouterr().out
    with pytest.raises(InputError, match="parameters.add there 3, here 4"):
        main(flags(old, add=4))


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({}, "--extend=.*: needs --add, the number"),
        ({"add": 2, "vocab_size": 900}, "--vocab_size=900: --extend adds"),
    ],
)
def test_what_does_not_fit_is_refused(old, others, message):
    with pytest.raises(InputError, match=message):
        main(flags(old, **others))
    assert [*old.parent.glob("new.txt*")] == []


def test_more_pieces_than_the_text_has():
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *PIECES))
    assert extend_vocabulary(vocabulary, {"dab": 2}, 1).tokens == (*vocabulary.tokens, "dab")
    with pytest.raises(InputError, match="^--add=9: only 1 new pieces would save a token of this"):
        extend_vocabulary(vocabulary, {"dab": 2}, 9)


def test_what_is_too_long_for_a_word_becomes_no_piece():
    assert choose_pieces(PIECES, {"d" * 51: 1000, "dab": 1}, 1) == ["dab"]
    assert choose_pieces(PIECES, {"d" * 50: 1000, "dab": 1}, 1) == ["d" * 50]
