"""Large files: their parts give the documents of the whole, in every format."""

import bz2
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.sample_text import make_document

from beambert.errors import InputError
from beambert.pipelines.corpus import base
from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.reading import (
    ReadOptions,
    read_part,
    reject_row,
    sample_files,
    split_file,
)
from beambert.pipelines.corpus.wiki_files import index_path, stream_offsets
from beambert.pipelines.input_files import match_inputs

PART = 3000  # bytes, instead of 16 MB
AUTO = ReadOptions()


class Tally:
    bytes = 0

    def add(self, **counts):
        self.bytes += counts.get("bytes", 0)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(base, "PART_BYTES", PART)


@pytest.fixture(scope="module")
def corpus():
    generator = random.Random(0)
    return [make_document(generator, generator.randint(1, 9)) for _ in range(60)]


def page(number, document, namespace=0):
    text = "\n\n".join(document).replace("<", "&lt;")
    return (
        f"  <page>\n    <title>Page {number}</title>\n    <ns>{namespace}</ns>\n"
        f"    <revision>\n      <text>{text}</text>\n    </revision>\n  </page>\n"
    )


DUMP_HEAD = "<mediawiki>\n  <siteinfo>\n  </siteinfo>\n"


def write(folder, name, corpus):
    """Writes the corpus in a format; returns the file's path."""
    lines = ["\n".join(document) for document in corpus]
    if name == "parquet":
        path = folder / "corpus.parquet"
        pq.write_table(pa.table({"text": lines}), path, row_group_size=7, compression="none")
        return path
    text = {
        "wikiextractor": "".join(f'<doc id="1" title="x">\n{t}\n</doc>\n' for t in lines),
        "lines": "\n\n".join(lines) + "\n",
        "jsonl": "".join(json.dumps({"text": t}) + "\n" for t in lines),
        "wikitext": "".join(f" = Title {i} = \n\n {t}\n\n" for i, t in enumerate(lines)),
        "mediawiki": DUMP_HEAD + "".join(map(page, range(60), corpus)) + "</mediawiki>\n",
        "text": "\n".join(lines),
    }[name]
    path = folder / "corpus"
    path.write_text(text)
    return path


def read(path, options=AUTO):
    """Returns a file's parts, what they give, and the bytes that were told."""
    (file,) = match_inputs([str(path)])
    tally, found = Tally(), []
    divided = split_file(file, options)
    for part in divided:
        found += read_part(part, options, tally)
    assert tally.bytes == file.bytes
    return divided, found


@pytest.mark.parametrize(
    "name", ["wikiextractor", "lines", "jsonl", "wikitext", "mediawiki", "parquet"]
)
def test_parts_give_the_documents_of_the_whole(tmp_path, corpus, name, monkeypatch):
    path = write(tmp_path, name, corpus)
    divided, found = read(path)
    monkeypatch.setattr(base, "PART_BYTES", 1 << 30)
    whole, expected = read(path)
    assert len(divided) > 3 and len(whole) == 1
    assert found == expected and len(found) == len(corpus)
    assert all(isinstance(document, Document) for document in found)
    assert sum(part.bytes for part in divided) == path.stat().st_size


@pytest.mark.parametrize("name", ["wikiextractor", "lines", "jsonl", "wikitext", "mediawiki"])
def test_lines_may_end_with_carriage_returns_alone(tmp_path, corpus, name):
    path = write(tmp_path, name, corpus)
    _, expected = read(path)
    for encoding in ("utf-8", "utf-16"):
        path.write_bytes(path.read_text("utf-8").replace("\n", "\r").encode(encoding))
        divided, found = read(path)
        assert len(divided) == 1 and [row.text for row in found] == [row.text for row in expected]
        path = write(tmp_path, name, corpus)


def test_compressed_file_stays_whole(tmp_path, corpus):
    path = write(tmp_path, "jsonl", corpus * 20)
    packed = tmp_path / "corpus.bz2"
    packed.write_bytes(bz2.compress(path.read_bytes()))
    divided, found = read(packed)
    assert packed.stat().st_size > 2 * PART
    assert len(divided) == 1 and len(found) == 20 * len(corpus)


class TestMultistream:
    """A dump as Wikimedia writes it: head, streams of pages, end; and the list of the streams."""

    @pytest.fixture
    def dump(self, tmp_path, corpus):
        path = tmp_path / "xwiki-20240101-pages-articles-multistream.xml.bz2"
        generator = random.Random(1)
        documents = [make_document(generator, 20) for _ in range(60)]
        index, data = [], bz2.compress(DUMP_HEAD.encode())
        for first in range(0, 60, 5):
            numbers = range(first, first + 5)
            index += [f"{len(data)}:{n}:Page: {n}" for n in numbers]
            # One page in each stream isn't an article.
            pages = [page(n, documents[n], namespace=0 if n % 5 else 4) for n in numbers]
            data += bz2.compress("".join(pages).encode())
        path.write_bytes(data + bz2.compress(b"</mediawiki>\n"))
        self.index = tmp_path / "xwiki-20240101-pages-articles-multistream-index.txt.bz2"
        self.index.write_bytes(bz2.compress("\n".join(index).encode() + b"\n"))
        return path

    def test_divided_by_the_index(self, dump):
        divided, found = read(dump)
        assert len(divided) > 2
        self.index.unlink()
        whole, expected = read(dump)
        assert len(whole) == 1 and found == expected
        assert sum(isinstance(document, Document) for document in found) == 48
        assert sum(isinstance(document, Skip) for document in found) == 12

    def test_damage_in_one_part_costs_no_other(self, dump):
        data = bytearray(dump.read_bytes())
        divided, _ = read(dump)
        middle = divided[1].start + divided[1].bytes // 2
        data[middle : middle + 4] = b"\xff\x00\xff\x00"
        dump.write_bytes(data)
        _, found = read(dump)
        rejects = [document for document in found if isinstance(document, Reject)]
        assert [reject.reason for reject in rejects] == ["corrupt_file"]
        assert sum(not isinstance(document, Reject) for document in found) >= 40

    @pytest.mark.parametrize("index", [b"not an index\n", b"99999999:1:Page\n"])
    def test_wrong_index(self, dump, index):
        self.index.write_bytes(bz2.compress(index))
        with pytest.raises(InputError, match="index"):
            read(dump)


def test_rejects_say_from_where_lines_are_counted(tmp_path, corpus):
    path = write(tmp_path, "jsonl", corpus)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[-2] = b'{"text": 1}\n'
    path.write_bytes(b"".join(lines))
    (file,) = match_inputs([str(path)])
    options = ReadOptions()
    for part in split_file(file, options):
        for document in read_part(part, options, Tally()):
            if isinstance(document, Reject):
                row = json.loads(reject_row(part, document))
    rest = path.read_bytes()[row_start(row) :].splitlines()
    # The part's first line may be the end of one that belongs to the part before.
    assert rest[row["line"] - 1] == b'{"text": 1}' or rest[row["line"]] == b'{"text": 1}'
    assert row["file"] == str(path) and row["reason"] == "no_text"


def row_start(row) -> int:
    return int(row["detail"].rsplit("from byte ", 1)[1].split(" ")[0].replace(",", ""))


class TestTooLarge:
    """A document above the limit is rejected, and those after it are read."""

    @pytest.fixture(autouse=True)
    def small_documents(self, monkeypatch):
        monkeypatch.setattr(base, "MOST_DOCUMENT_BYTES", 2000)

    @pytest.mark.parametrize("name", ["lines", "jsonl", "wikiextractor", "wikitext", "mediawiki"])
    @pytest.mark.parametrize("large", [["A long line. " * 300], ["Many lines."] * 300])
    def test_alone(self, tmp_path, corpus, name, large):
        # One large document, and nine small ones.
        few = [document[:3] for document in corpus[:9]]
        path = write(tmp_path, name, [*few[:4], large, *few[4:]])
        options = ReadOptions(name)
        found = read(path, options)[1]
        rejects = [document for document in found if isinstance(document, Reject)]
        texts = [document.text.split() for document in found if isinstance(document, Document)]
        assert [reject.reason for reject in rejects] == ["too_large"]
        assert "has over 2,000 bytes" in rejects[0].detail
        assert texts == [" ".join(document).split() for document in few]

    def test_a_file_that_is_one_line(self, tmp_path):
        path = tmp_path / "a.bz2"
        path.write_bytes(bz2.compress(b"a" * 100_000))
        (reject,) = read(path, ReadOptions("text"))[1]
        assert reject.reason == "too_large"
        assert "--format=lines" in reject.detail

    def test_lines_after_it_are_counted_from_the_beginning(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text('{"text": "a"}\n{"text": "' + "b" * 3000 + '"}\n{"text": "c"}\n[]\n')
        first, large, third, last = read(path)[1]
        assert (first.text, large.line, third.text, last.line) == ("a", 2, "c", 4)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_line_that_is_too_long_ends_no_file_in_a_wide_encoding(tmp_path, encoding, monkeypatch):
    monkeypatch.setattr(base, "MOST_DOCUMENT_BYTES", 1 << 18)
    path = tmp_path / "a.jsonl"
    long = '{"text": "' + "b" * 3 * (1 << 18) + '"}'
    path.write_text(f'{{"text": "a"}}\n{long}\n{{"text": "c"}}\n[]\n', encoding=encoding)
    first, large, third, last = read(path)[1]
    assert (first.text, large.line, large.reason) == ("a", 2, "too_large")
    assert (third.text, last.line) == ("c", 4)


@pytest.mark.parametrize("name", ["lines", "jsonl", "text"])
def test_half_a_surrogate_pair_costs_its_document_alone(tmp_path, name):
    path = tmp_path / "a"
    text = {
        "lines": "An apple.\n\nA \ud800 pear.\n\nA plum.\n",
        "jsonl": '{"text": "An apple."}\n{"text": "A \ud800 pear."}\n{"text": "A plum."}\n',
        "text": "The apple of the man and the pear. " * 9 + "A \ud800 pear.",
    }[name]
    path.write_bytes(b"\xff\xfe" + text.encode("utf-16-le", "surrogatepass"))
    found = read(path, ReadOptions(name))[1]
    reasons = [getattr(document, "reason", "") for document in found]
    assert reasons == (["not_utf16"] if name == "text" else ["", "not_utf16", ""])


def test_dump_whose_last_part_has_no_page(tmp_path, corpus):
    """The last page began before the last part, and the end of the XML went with it."""
    long = [corpus[0], corpus[1], ["A very long page."] * 400]
    path = tmp_path / "dump.xml"
    path.write_text(DUMP_HEAD + "".join(map(page, range(3), long)) + "</mediawiki>\n")
    divided, found = read(path)
    assert len(divided) > 2 and [type(document) for document in found] == [Document] * 3
    # On the line of the last page, too; and where the file was cut after that page.
    whole = path.read_text()
    path.write_text(whole.replace("</page>\n</mediawiki>", "</page></mediawiki>"))
    assert [type(document) for document in read(path)[1]] == [Document] * 3
    path.write_text(whole.removesuffix("</mediawiki>\n"))
    divided, found = read(path)
    assert len(divided) > 2 and [type(document) for document in found] == [Document] * 3 + [Reject]
    assert found[-1].reason == "cut_off"


def test_a_column_that_no_row_has_is_told_from_a_sample(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"content": "The river."}\n' * 3)
    files = match_inputs([str(tmp_path / "*")])
    with pytest.raises(InputError, match=r"a\.jsonl: line 1 has .* its columns are content$"):
        sample_files(files, ReadOptions())
    (found,) = sample_files(files, ReadOptions(text_column="content"))
    assert [document.text for document in found.documents] == ["The river."] * 3
    # Other rows may have it, so the reader counts those that don't.
    (tmp_path / "b.jsonl").write_text('{"text": "The sea."}\n')
    _, found = sample_files(match_inputs([str(tmp_path / "*")]), ReadOptions())
    assert [document.text for document in found.documents] == ["The sea."]


@pytest.mark.parametrize(
    ("dump", "index"),
    [
        (
            "gs://b/enwiki-20240101-pages-articles-multistream.xml.bz2",
            "gs://b/enwiki-20240101-pages-articles-multistream-index.txt.bz2",
        ),
        (
            "/d/enwiki-20240801-pages-articles-multistream1.xml-p1p41242.bz2",
            "/d/enwiki-20240801-pages-articles-multistream-index1.txt-p1p41242.bz2",
        ),
        ("enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2", None),
        ("enwiki-20240101-pages-articles.xml.bz2", None),
        ("enwiki-20240101-pages-articles-multistream-index.txt.bz2", None),
        ("enwiki-20240101-pages-articles-multistream.xml", None),
    ],
)
def test_index_path(dump, index):
    assert index_path(dump) == index


def test_offsets_are_distinct_and_in_order():
    lines = [b"700:12:B\n", b"622:10:A\n", b"622:11:Category:A: b\n", b"700:13:C"]
    assert stream_offsets(lines) == [622, 700]
    assert stream_offsets([]) == []
