"""Markdown: what becomes a paragraph, what is dropped and counted, and hostile markup."""

# ruff: noqa: E501
import gzip
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.console import ProgressTally
from beambert.pipelines.corpus.documents import Document, Reject
from beambert.pipelines.corpus.formats import FORMATS, recognise
from beambert.pipelines.corpus.reading import ReadOptions, read_part, split_file
from beambert.pipelines.corpus.text_files import clean_markdown
from beambert.pipelines.input_files import match_inputs

PAGE = """\
---
title: A law
layout: default

---

# A law (AL 1)

Date
:   2013-06-06
Place
:   Page 1
    of two

## § 1 *Ships*
(1) A ship that
leaves\\
may **return**.

1.  one

    *   a [link][ref] and `code`
        in the list

        | name | value |
        |------|-------|
        | bow  | ~~1~~ 2 |

2.  two
> quoted
> twice[^1]

24\\. June &amp; ![a picture](p.png)July<br>August <b>b</b>
***
```python
print(1)
```
<div>
no prose
</div>

    indented

- [x] done

[ref]: http://a.example
[^1]: A note.
"""
PARAGRAPHS = [
    "A law (AL 1)", "Date", "2013-06-06 Place", "Page 1 of two", "§ 1 Ships", "(1) A ship that leaves may return.",
    "one", "a link and code in the list", "name value", "bow 1 2", "two", "quoted twice", "24. June & July August b",
    "indented", "done", "A note.",
]  # fmt: skip
COUNTS = {
    "front_matter": 1, "block_mark": 11, "emphasis": 3, "link": 1, "code_mark": 1, "image": 1, "html": 4, "code": 1,
    "ornament": 1, "footnote_mark": 2, "entity": 1, "backslash": 1,
}  # fmt: skip


def read(data: bytes) -> Document | Reject:
    (found,) = FORMATS["markdown"].read_lines(io.BytesIO(data))
    return found


def test_each_block_is_a_paragraph_and_markup_is_counted():
    found = read(PAGE.encode())
    assert found.text.split("\n") == PARAGRAPHS
    assert found.cleaned == COUNTS


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        ("---\n\nOne\n\n---\n\nTwo\n", ["One", "Two"]),
        ("---\nThe end has no dashes.\n", ["The end has no dashes."]),
        ("+++\ntitle = 'a'\n+++\nOne\n", ["One"]),
        ("---\na: b\n---\n", []),
        ("a\n===\nb\n---\n", ["a", "b"]),
        ("a_b_c 2*3*4 :) 10:30\n", ["a_b_c 234 :) 10:30"]),
        ("Term\n\n:   first\n\n    more\n\n:   second\n", ["Term", "first", "more", "second"]),
        ("<!-- gone -->\nOne\n", ["One"]),
        ("<!-- has no end\n\nOne\n", []),
        ("", []),
    ],
)
def test_what_resembles_other_markup(text, paragraphs):
    assert clean_markdown(text)[0].split("\n") == (paragraphs or [""])


words = st.lists(st.sampled_from(["a", "of", "Ships", "(1)", "§", "x.", "é"]), min_size=1)
blocks = st.lists(
    st.tuples(st.sampled_from(["", "# ", "* ", "1. ", "> ", "> * "]), words.map(" ".join)),
    min_size=1,
    max_size=6,
)


@settings(derandomize=True, max_examples=50, deadline=None, database=None)
@given(blocks)
def test_no_word_is_lost_and_none_is_made(some):
    text = "\n\n".join(mark + words for mark, words in some)
    assert clean_markdown(text)[0].split("\n") == [words for _, words in some]


def test_names_decide():
    for name in ("a.md", "A.MD", "a.markdown", "a.md.gz"):
        for sample in (PAGE, "a,b\n1,2\n3,4\n", "<p align=center>a</p>\n# B", "A.\nB.\n\nC.\nD.\n"):
            assert recognise(sample.encode(), path=f"/x/{name}").name == "markdown"
    assert recognise(PAGE.encode(), path="a.txt").name == "text"
    assert recognise(b"%PDF-1.7\n", path="a.md").name == "not_text"
    assert recognise(b"<p>a</p>\n# B", path="a.csv").name == "html"


def test_one_file_is_one_part_and_one_document(tmp_path, monkeypatch):
    monkeypatch.setattr("beambert.pipelines.corpus.base.PART_BYTES", 50)
    plain, packed, other = tmp_path / "a.md", tmp_path / "b.md.gz", tmp_path / "c"
    plain.write_text(PAGE)
    packed.write_bytes(gzip.compress(PAGE.encode()))
    other.write_text(PAGE)
    for path, options in (
        (plain, ReadOptions()),
        (packed, ReadOptions()),
        (other, ReadOptions("markdown")),
    ):
        (part,) = split_file(match_inputs([str(path)])[0], options)
        (found,) = read_part(part, options, ProgressTally(None))
        assert found.text.split("\n") == PARAGRAPHS


def test_blocks_too_deep_are_rejected_and_none_is_lost_before():
    def nested(deep: int) -> str:
        return "".join("  " * level + f"* a{level}\n" for level in range(deep))

    assert clean_markdown(nested(48))[0].split("\n") == [f"a{level}" for level in range(48)]
    for text in (nested(60), "> " * 150 + "a", "* " * 150 + "a"):
        assert read(text.encode()).reason == "tangled_markup"
