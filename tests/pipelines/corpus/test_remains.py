"""What programs and transcribers leave in texts goes; all else stays as it is."""

import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.corpus import cleaning
from beambert.pipelines.corpus.remains import (
    clean_extracted,
    clean_wikiextractor,
    clean_wikitext,
)
from beambert.pipelines.corpus.wiki_files import WikiExtractor


def clean_book(text: str) -> tuple[str, Counter[str]]:
    counts: Counter[str] = Counter()
    return cleaning.drop_marks(text, counts), counts


def drop_headings(text: str) -> tuple[str, Counter[str]]:
    counts: Counter[str] = Counter()
    return cleaning.drop_headings(text, counts), counts


exact = settings(derandomize=True, max_examples=200, deadline=None, database=None)


@pytest.mark.parametrize(
    ("text", "cleaned", "reasons"),
    [
        ("The R&amp;D of AT&amp;T", "The R&D of AT&T", {"entity": 2}),
        ("5&amp;nbsp;km &amp;lt; 6", "5\xa0km < 6", {"entity": 4}),
        ("a?b=1&copy=2 & so", "a?b=1&copy=2 & so", {}),
        ("He&lt;ref name=x&gt;A [[book]]&lt;/ref&gt; came.", "He came.", {"entity": 4, "tag": 1}),
        ("He&lt;ref name=x /&gt; came.", "He came.", {"entity": 2, "tag": 1}),
        ("One&lt;br /&gt;Two<br>three", "One\nTwo three", {"entity": 2, "tag": 2}),
        ("A <details><summary>b</summary>c</details> <img src=d><figure>e</figure>.", "A c.", {"tag": 5}),
        ('&lt;section begin="a" /&gt;Play', "Play", {"entity": 2, "tag": 1}),
        ("if a &lt; b and c &gt; d", "if a < b and c > d", {"entity": 2}),
        ("A&lt;!-- [[ --&gt; b", "A b", {"entity": 2, "comment": 1}),
        ("Ice () is a film ( ; ).", "Ice is a film.", {"empty_brackets": 2}),
        ("Ivan (; born 1990) and Li (, also Lee) ran.", "Ivan (born 1990) and Li (also Lee) ran.",
         {"empty_brackets": 2}),
        ("Ivan (Russian, ) ran.", "Ivan (Russian) ran.", {"empty_brackets": 1}),
        ("call main() or (a, b)", "call main() or (a, b)", {}),
        ("along with the , , and B", "along with the , and B", {"commas": 1}),
        ("The function formula_5, at formula_4.", "The function \x02, at \x02.", {"formula": 2}),
        ("The <math>x</math> and <code>y</code>.<pre>z</pre>", "The \x02 and \x02.", {"tag": 3}),
        ("run codice_1 now", "run \x02 now", {"formula": 1}),
        ("See [[Oak]] and [[oak|oaks]].[[Category:Oak]]", "See Oak and oaks.", {"link": 3}),
        ("X[[File:a.jpg|thumb|An [[oak]] here]] grows ]]", "X grows ", {"link": 3}),
        ("See [[2001: A Space Odyssey]].", "See 2001: A Space Odyssey.", {"link": 1}),
        ("See [http://x.org the page].", "See the page.", {"link": 1}),
        ("A {{lang|grc|{{x}}}} word }} here", "A word here", {"template": 3}),
        ("__NOTOC__Text of __init__", "Text of __init__", {"magic_word": 1}),
        ("Text.\n{|\n|-\n| cell\n|}\nMore.", "Text.\nMore.", {"table_row": 4}),
        ("Text.\n!colspan=9 style=| Season\n!Year\n! Party", "Text.", {"table_row": 3}),
        ("!Kung is a language of Namibia.", "!Kung is a language of Namibia.", {}),
        ("A\n==Heading==\nb = c", "A\nb = c", {"heading": 1}),
    ],
)  # fmt: skip
def test_wikiextractor(text, cleaned, reasons):
    found, counts = clean_wikiextractor(text)
    assert " ".join(found.split(" ")).replace("  ", " ") == cleaned
    assert counts == reasons


def test_documents_are_cleaned_and_counted():
    data = b'<doc id="1" title="R&amp;D">\nR&amp;D\n\nThe R&amp;D.\n</doc>\n'
    data += b'<doc id="2" title="T">\nT\n\n #REDIRECT Mid_Coast\n</doc>\n'
    document, redirect = WikiExtractor().read_lines(data.splitlines(keepends=True))
    assert document.text.strip() == "The R&D."
    assert document.cleaned == {"entity": 1}
    assert redirect.reason == "redirect"


@pytest.mark.parametrize(
    ("text", "cleaned", "reasons"),
    [
        ("It is _much_ clearer, _I say_!", "It is much clearer, I say!", {"emphasis": 2}),
        ("the names _x and a_b_c, __init__", "the names _x and a_b_c, __init__", {}),
        ("One.\n  *   *   *\nTwo *.", "One.\nTwo *.", {"ornament": 1}),
        ("[Illustration]\n[Illustration: A dog.]\nText", "\n\nText", {"illustration": 2}),
        ("[Footnote 1] stays * so", "[Footnote 1] stays * so", {}),
    ],
)
def test_book(text, cleaned, reasons):
    assert clean_book(text) == (cleaned, reasons)


def test_wikitext():
    text = "the mid @-@ air 2 @,@ 000 and 0 @.@ 5 by @ home"
    expected = "the mid-air 2,000 and 0.5 by @ home"
    assert clean_wikitext(text) == (expected, {"joined_word": 3})


@exact
@given(st.text(alphabet="ab ()[]{}|!=<>&;,*_#\n", max_size=60))
@pytest.mark.parametrize("clean", [clean_wikiextractor, clean_book, clean_wikitext])
def test_nothing_changes_uncounted(clean, text):
    found, counts = clean(text)
    assert counts or found == text
    assert all(counts.values())


def test_marks_apart_from_words_are_no_holes():
    text = "Rome , the capital , is old .\nIt lies on seven hills , of course ."
    assert clean_extracted(text)[0] == text
    assert clean_extracted("Rome is old. It is , of course, of stone.")[0] == "Rome is old."


def test_a_paragraph_without_its_beginning_is_dropped():
    text = "is a river. It is long.\n, the bank is steep.\n\u0438 \u0443\u0448\u043b\u0430.\nThe bank is low."
    assert clean_extracted(text)[0] == "It is long.\n\n\nThe bank is low."
    assert clean_extracted(text.lower())[0] == text.lower()


LINES = st.lists(
    st.sampled_from(["The rule of the court", "goes on, and", "it ends.", " ", "\u3000", "", "1."])
)


@exact
@given(LINES)
def test_lines_of_white_space_are_no_lines(lines):
    found, _ = clean_extracted("\n".join(lines))
    filled, _ = clean_extracted("\n".join(line.strip() for line in lines))
    assert found.split() == filled.split()


# ruff: noqa: E501
MARKERS = [
    "&", "&amp;", "&amp;amp;", "&#1", "<", "<!--", "-->", "<ref", "<ref>", "<ref/>", "</ref>",
    "<math", "<br", "<br ", "<b ", "<div ", "{|", "|}", "|", "\n|", "\n!", "!", "{", "{{", "}}", "}",
    "{{a|", "[[", "]]", "[[a|", "[[a|{{b|", "[[File:", "[http://", "[", "_", "__", "__A", "_a",
    "formula_", "codice_1", "=", "\n=", "(", "( ", "()", " ()", "(,", "(;", " (", ",", ", ", " ,",
    ";", ", )", " )", ")", " ", "\xa0", "\n", "'", "*", "* ", "\n* ", "[Illustration",
    "[Illustration:", "_a ", " _", " @", " @-@", "@", "\x01", "(\x01", ",\x01",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("marker", MARKERS)
def test_the_time_grows_with_the_length(marker):
    """Not with its square, which would take minutes; a busy machine takes half a second."""
    for end in ("", "</ref>" + "}}" * 20_000 + "]]" * 20_000):
        text = marker * (200_000 // len(marker)) + end
        for clean in (clean_wikiextractor, clean_book, clean_wikitext):
            started = time.process_time()
            clean(text)
            assert time.process_time() - started < 1.5, clean


@pytest.mark.parametrize(
    ("text", "kept", "count"),
    [
        ("A.\n\n\n== Sự kiện ==\n\n=== X ===  \nB.\n", "A.\n\n\n\n\n\nB.\n", 2),
        ("A.\n== B ==\nC.\n====== D ======", "A.\nC.\n", 2),
        ("A\n== b == c ==\nd\n\ne", "A\n\nd\n\ne", 1),
        ("a == b ==\n == c ==\n= d =\n== e =\n==f==\n== ==\n=====\n== g\n", None, 0),
        ("== a\n b ==\n", None, 0),
    ],
)
def test_headings_of_wikis(text, kept, count):
    assert drop_headings(text) == (
        text if kept is None else kept,
        {"heading": count} if count else {},
    )


@pytest.mark.parametrize("line", ["== ", "== a ==", "== a", "=", "== a \n", "== a ==\n", "== a =="])
def test_headings_take_time_in_proportion(line):
    started = time.process_time()
    drop_headings(line * (400_000 // len(line)))
    assert time.process_time() - started < 2
