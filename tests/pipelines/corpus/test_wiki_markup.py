"""Wiki markup -> prose: literal cases, and mwparserfromhell's own tree as a reference."""

import re

import mwparserfromhell
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mwparserfromhell.nodes import ExternalLink, HTMLEntity, Tag, Text, Wikilink

from beambert.pipelines.corpus import wiki_markup
from beambert.pipelines.corpus.wiki_markup import DROPPED_TAGS, strip_markup

exact = settings(derandomize=True, max_examples=200, deadline=None, database=None)
markup = st.text(alphabet="ab[]{}|'=<>/*#:;!&\n ", max_size=80)
# Pieces that go together more often than single characters do.
pieces = st.lists(
    st.sampled_from(
        ["a", "b ", "[[", "]]", "{{", "}}", "{{{", "}}}", "|", "=", "\n", "* ", "== ", " ==\n",
         "<ref>", "</ref>", "<i>", "</i>", "<br>", "<b c=d>", "</b>", "{|", "|}", "|-", "&amp;",
         "&#x41;", "<!--", "-->", "[http://x.y ", "]", ": ", "File:", "<math>", "</math>"]
    ),
    max_size=25,
).map("".join)  # fmt: skip


@pytest.mark.parametrize(
    ("wikitext", "prose"),
    [
        ("A<ref>note</ref> b<ref name=x /> c.", "A b c."),
        ("{{Infobox\n| a = {{b|c}}\n}}\nText ({{lang|grc|x}}) here.", "Text here."),
        ("{{a|{{b|[[c]]}}|{{{d}}} <!-- }} -->}}<span {{e}} class='f'>G</span>", "G"),
        ("{| class=wikitable\n| cell\n|}\nAfter.", "After."),
        ("[http://x.org Label] and http://y.org here.", "Label and here."),
        ("[[:Category:Dogs|Dogs]] are [[File:d.jpg|thumb|A [[dog]]]]animals", "Dogs are animals"),
        ("An [[oak|oaken]] chair.\n[[Category:Oak]]\n[[fr:Chêne]]", "An oaken chair."),
        ("# one\n## two\n; term\n: indented\nProse.", "Prose."),
        ("<!-- hidden -->Shown.<br/>Next<math>x^2</math>.", "Shown.\nNext."),
        ("''It'' is '''''both'''''. __NOTOC__", "It is both."),
        ("'''Heading'''\n'''It''' is.\n== Another ==\n", "It is."),
        ("5 &lt; 6 &mdash; yes&nbsp;&#33;", "5 < 6 — yes !"),
        ("X ({{IPA|x}}; born {{date}}, {{a}}; {{b}} – 1982) is", "X (born, – 1982) is"),
        ("ASCII ({{IPA|x}}, {{b}}), short for", "ASCII, short for"),
        ("Such as {{a}}, {{b}}, {{c}} and d.", "Such as, and d."),
        ("Near <math>x</math>, it is 5 {{unit}}.\n,{{a}}\n", "Near, it is 5."),
        ("He (or she , too) ; it", "He (or she , too) ; it"),
    ],
)
def test_strip_markup(wikitext, prose):
    assert strip_markup(wikitext) == prose


@exact
@given(markup | pieces)
def test_any_markup_gives_clean_lines(wikitext):
    for line in strip_markup(wikitext).split("\n"):
        assert line == line.strip() and not set(line) & {"\0", "\1"}


def visible(code) -> str:
    """The prose of mwparserfromhell's tree, a list item as a NUL."""
    text = ""
    for node in code.nodes:
        if isinstance(node, Text):
            text += node.value
        elif isinstance(node, HTMLEntity):
            text += node.normalize() or ""
        elif isinstance(node, Wikilink):
            target = visible(node.title)
            if target.strip().partition(":")[0].lower() not in wiki_markup.ENGLISH_PREFIXES:
                text += visible(node.text if node.text is not None else node.title).lstrip(":")
        elif isinstance(node, ExternalLink):
            text += visible(node.title) if node.title is not None else ""
        elif isinstance(node, Tag):
            tag = visible(node.tag).strip().lower()
            if tag in ("li", "dd", "dt") and node.wiki_markup:
                text += "\0"
            elif tag == "br":
                text += "\n"
            elif tag not in DROPPED_TAGS and node.contents is not None:
                text += visible(node.contents)
    return text


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


@exact
@given(pieces)
def test_the_same_words_as_of_the_tree(wikitext):
    text = visible(mwparserfromhell.parse(wikitext, skip_style_tags=True))
    kept = [line for line in text.split("\n") if "\0" not in line]
    assert words(strip_markup(wikitext)) == words("\n".join(kept))


@pytest.mark.parametrize("item", ["*#:;\n", "*\n", ";a:b\n", "*#:; a\n", "*#:;" * 9 + "[[a]]\n"])
def test_many_list_items_are_not_parsed_one_by_one(item, monkeypatch):
    """The parser takes 5 to 7 seconds for 1 MB of such signs, and lines with one are dropped."""
    parsed, parser = 0, wiki_markup.CTokenizer()

    class Counting:
        def tokenize(self, text, *others):
            nonlocal parsed
            parsed += len(re.findall("[*#:;]", text))
            return parser.tokenize(text, *others)

    monkeypatch.setattr(wiki_markup, "CTokenizer", Counting)
    items = item * (30_000 // len(re.findall("[*#:;]", item)))
    wikitext = f"A; b:\n{items}[[c]] d.\n{items}* {{{{e}}}}\nF.\n'''g'''\n{items}\nH."
    assert strip_markup(wikitext) == "A; b:\nc d.\nF.\nH."
    assert parsed < 4000
    parsed = 0
    assert strip_markup(wikitext.replace(items, item)) == "A; b:\nc d.\nF.\nH."
    assert parsed > 2
