"""Wiki markup -> prose: mwparserfromhell's own tree as a reference, and tangled pages."""

import bz2
import io
import re
import time

import mwparserfromhell
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mwparserfromhell.nodes import ExternalLink, HTMLEntity, Tag, Text, Wikilink

from beambert.pipelines.corpus import wiki_markup
from beambert.pipelines.corpus.documents import Document, Reject
from beambert.pipelines.corpus.remains import DROPPED_ELEMENTS
from beambert.pipelines.corpus.wiki_files import MediaWiki
from beambert.pipelines.corpus.wiki_markup import (
    count_unclosed,
    is_tangled,
    strip_markup,
)

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
        ("{{Infobox\n| a = {{b|c}}\n}}\nText ({{lang|grc|x}}) here.", "Text (x) here."),
        ("{{a|{{b|[[c]]}}|{{{d}}} <!-- }} -->}}<span {{e}} class='f'>G</span>", "G"),
        ("{| class=wikitable\n| cell\n|}\nAfter.", "After."),
        ("[http://x.org Label] and http://y.org here.", "Label and here."),
        ("[[:Category:Dogs|Dogs]] are [[File:d.jpg|thumb|A [[dog]]]]animals", "Dogs are animals"),
        ("An [[oak|oaken]] chair.\n[[Category:Oak]]\n[[fr:Chêne]]", "An oaken chair."),
        ("# one\n## two\n; term\n: indented\nProse.", "Prose."),
        ("<!-- hidden -->Shown.<br/>Next<math>x^2</math>.", "Shown.\nNext."),
        ("''It'' is '''''both'''''. __NOTOC__", "It is both."),
        ("A line<br>goes on.<br />Next.", "A line goes on.\nNext."),
        ("A line\ngoes on, but\n* item\nno list does.", "A line goes on, but\nno list does."),
        ("'''Heading'''\n'''It''' is.\n== Another ==\n", "It is."),
        ("5 &lt; 6 &mdash; yes&nbsp;&#33;", "5 < 6 — yes !"),
        ("X ({{IPA|x}}; born {{IPA-de|a}}, {{a}}; {{b}} – 1982) is", "X is"),
        ("ASCII ({{IPA|x}}, {{b}}), short for", "ASCII, short for"),
        ("A ({{IPA|x}}; born {{efn|a}}, {{sfn|b}}; 1982) is", "A (born, 1982) is"),
        ("Such as {{a}}, {{b}} and dogs. The next.{{c}} The last. {{d}}", "The next. The last."),
        ("Near <math>x</math>, it is 5 {{m|7}}.\n,{{a}}\n", "Near x, it is 5 7."),
        ("It is <math>\\frac{a}{b}</math> long. It is red.", "It is red."),
        # Other wikis, whose scripts may have no spaces.
        (
            "{{読み仮名|富士山|ふじさん}}は{{x|1}}にある。水は冷たい。{{x|水}}は青い。",
            "水は冷たい。",
        ),
        ("Основан {{дата|4|5|1820}} в {{s|XIX}} веке. Длина {{num|12|км}}.", "Длина 12 км."),
        ("Es el {{siglo|XIX||s}}. [[Categoría:Lugar]]", "Es el siglo XIX."),
        ("Das [[Haus:Neu]] ist alt. Es steht. [[Kategorie:Ort]]", "Es steht."),
        (
            "Al norte. [[Archivo:Casa.jpg|mini|La casa\n\nOtra -{zh-hans:a; zh-hant:b\nFin.",
            "Al norte.\nOtra\nFin.",
        ),
        ("它用-{zh-tw:軟體; zh-cn:软件}-工作。-{sr-ec:да; sr-el:da}-。", "它用软件工作。да。"),
        # Templates that show text.
        (
            "Il part le {{1er janvier}} au {{IIe siècle av. J.-C.}}, {{s-|XIX|e}}",
            "Il part le 1er janvier au IIe siècle av. J.-C., XIXe siècle",
        ),
        ('Misura {{M|1300|u=m}}. {{Höhe|5|DE-NN}} und {{"|nie}}', "Misura 1300 m. 5 m und „nie“"),
        (
            "{{anchor|X}}{{convert|1300|m|ft}} or {{Convert|10|to|20|C}} by "
            "{{cvt|2|xx|3|x|{{formatnum:18}}|m}} of {{convert|22|e6acre}}",
            "1300 m or 10 to 20 °C by 2 × 3 × 18 m of 22 million acre",
        ),
        (
            "La {{lang|fr|''ligue''}}, {{lang-de|Liga}}, {{transl|ja|Hokubu}}",
            "La ligue, Liga, Hokubu",
        ),
        (
            "{{Nihongo|'''League'''|北部|Hokubu}} in {{birth date|1900|5|6}}",
            "League (北部, Hokubu) in May 6, 1900",
        ),
        (
            "Le {{date|4|mai|1820}} au {{s|XIX|e}}, {{unité|2000|m}}",
            "Le 4 mai 1820 au XIXe siècle, 2000 m",
        ),
        ("{{quote|1=A [[b|c]] {{em|d}}}} and {{val|3.5|u=kg}}{{'s}}", "A c d and 3.5 kg's"),
        # Apostrophes.
        (
            "''Eagle'''s engine, ''Titanic'''s and '''''both'''''",
            "Eagle's engine, Titanic's and both",
        ),
        ("L'''Iliade'' est. '''Gras''' et ''a '''b''' c''", "L'Iliade est. Gras et a b c"),
        ("'''''Eagle'' lander''' and the ''Times''' report", "Eagle lander and the Times' report"),
        ("The '''Joneses'''' house '''x'''", "The Joneses' house x"),
        # Names of namespaces that the dump does not list.
        (
            "[[Bild:R.jpg|mini|Das Rathaus]]\nDas [[Haus]].\n[[Categoría:A]] [[Kategorie:B|c]]",
            "Das Haus.",
        ),
        (
            "[[Изображение:D.PNG|x]] Дом. [[Mission: Impossible]] ran.",
            "Дом. Mission: Impossible ran.",
        ),
        # Variants of one language.
        (
            "-{zh-hans:计算机; zh-hant:電腦;}-是-{于}-。-{T|zh:a;zh-cn:b}-它-{A|zh-cn:软件;zh-tw:軟體}-。",
            "计算机是于。它软件。",
        ),
        ("-{sr-ec:Дом; sr-el:Dom}- je dom.", "Дом je dom."),
        ("-{zh-hans:里{{lang|en|X}}; zh-hant:裡}-走。", "里X走。"),
        # Markup without an end.
        ("{{Infobox town\n| name = A\n'''A''' is a town.", "A is a town."),
        ("A barn. {{Infobox|name=A\n\nIt is red.", "A barn.\nIt is red."),
        ("It is.<ref>Smith, p. 4. It has\nA river.", "It is.\nA river."),
        (
            "The <b>older one. The [[church|churches are old.",
            "The older one. The churches are old.",
        ),
        ("{| class=x\n! Year\n|-\n| 1900\nA mill.", "A mill."),
        ("It is. <!-- a note\n\nThe last.", "It is."),
        ("<gallery>\nDatei:A.jpg|Bild\n\nDie [http://x.de Burg.\n|} --> Alt.", "Die Burg.\nAlt."),
        # The name of a note is a whole word.
        ("Im {{Jahrhundert|19}} neu. {{Mainzer|x}} kam. Es{{ja}} ist.", "Es ist."),
        ("He (or she , too) ; it", "He (or she , too) ; it"),
        # What a sentence begins with is dropped, so that its rest is none.
        ("{{IPA|/haʊs/}} is how to say it. The end.", "The end."),
        (
            "A bell. [[Media:A.ogg|Listen]] to it. It rings.<ref>x</ref> so.",
            "A bell. It rings. so.",
        ),
    ],
)
def test_strip_markup(wikitext, prose):
    assert strip_markup(wikitext)[0] == prose


@exact
@given(markup | pieces)
def test_any_markup_gives_clean_lines(wikitext):
    for line in strip_markup(wikitext)[0].split("\n"):
        assert line == line.strip() and not set(line) & {"\0", "\1", "\2"}


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
            elif tag not in DROPPED_ELEMENTS and node.contents is not None:
                text += visible(node.contents)
    return text


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def without_lists(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if "\0" not in line)


@exact
@given(pieces)
def test_the_same_words_as_of_the_tree(wikitext):
    text = visible(mwparserfromhell.parse(wikitext, skip_style_tags=True))
    shown = wiki_markup.visible_text(wikitext, frozenset(wiki_markup.ENGLISH_PREFIXES))
    assert words(without_lists(shown)) == words(without_lists(text))


# ruff: noqa: E501


@pytest.mark.parametrize(
    ("wikitext", "unclosed"),
    [
        ("{{a|{{b}}}} [[c]] <ref>d</ref> <br> <i name=e /> [http://x.org y] <!-- z -->", {}),
        ("}}{{a", {"{{": 1}),
        ("{|\n| a\n|}\n{|\n{{b\n|}}", {"{|": 1}),
        ("[[a|{{b|]]", {"{{": 1}),
        ("<b <i>a</i>", {"tag": 1}),
        ("a < b <ref>c [http://x.org", {"element": 1, "[": 1}),
        ("<!-- a -->b <!--", {"<!--": 1}),
    ],
)
def test_markers_without_an_end(wikitext, unclosed):
    assert +count_unclosed(wikitext) == unclosed


def page(wikitext: str) -> bytes:
    escaped = wikitext.replace("&", "&amp;").replace("<", "&lt;")
    return f"<mediawiki>\n<page><title>A</title><ns>0</ns><revision><text>{escaped}</text></revision></page>\n</mediawiki>\n".encode()


MARKERS = [
    "<b ", "{{a|", "[[a|{{b|", "<b a=\"", "{{{a|", "<ref>", "<div>a", "[http://a ", "<!-- ", "[[a ", "''a ", "'''",
    "\n== a", "&a", "&amp;", "\n* a", "[", "{", "=", "<", "{|\n| ", "\n|-\n| a || b", "{{a|b=c}} ", "}}", "]]", "</ref>",
    "<nowiki>", "\n: a", "\n; a : b", "__A__", "~~~", "----\n", "http://a ", "(", "( ", ", ", " ", "\t",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("marker", MARKERS)
def test_a_page_of_one_marker_is_read_or_rejected_at_once(marker):
    for size in (8_000, 200_000):
        data = page(marker * (size // len(marker)))
        started = time.process_time()
        (found,) = MediaWiki().read_lines(io.BytesIO(data))
        assert time.process_time() - started < 2
        assert isinstance(found, Document) or found.reason == "tangled_markup"


@pytest.mark.parametrize("marker", ["<b ", "{{a|", "[[a|{{b|"])
def test_what_took_seconds_is_rejected(marker):
    (found,) = MediaWiki().read_lines(io.BytesIO(page(marker * 4000)))
    assert isinstance(found, Reject)
    assert found.reason == "tangled_markup"


@pytest.mark.slow
def test_no_real_page_is_tangled(shared_data):
    import xml.etree.ElementTree as ElementTree

    (path,) = (shared_data / "wiki_xml").glob("*.bz2")
    texts = bz2.decompress(path.read_bytes()).split(b"<page>")[1:]
    pages = [
        ElementTree.fromstring(b"<page>" + text.partition(b"</page>")[0] + b"</page>")
        for text in texts
    ]
    wikitexts = [each.text or "" for tree in pages for each in tree.iter("text")]
    assert sum(map(len, wikitexts)) > 2_000_000
    assert not any(map(is_tangled, wikitexts))


def test_a_sentence_with_a_hole_ends_by_the_language_of_the_wiki():
    found = strip_markup("Im 19. Jahrhundert lebte {{x}} hier. Es war gut.", language="de")[0]
    assert found == "Es war gut."
    text = page("Im 19. Jahrhundert lebte {{x}} hier. Es war gut.")
    dump = text.replace(b"<mediawiki>", b'<mediawiki xml:lang="de">')
    (document,) = MediaWiki().read_lines(io.BytesIO(dump))
    assert document.text == "Es war gut."
