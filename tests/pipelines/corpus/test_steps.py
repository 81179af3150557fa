"""The steps of cleaning, whatever brought a document: a file, a column, a page, a pipeline."""

# ruff: noqa: E501

import json
import pathlib

import pytest

from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.pipelines.corpus.cleaning import clean, clean_text
from beambert.pipelines.corpus.documents import Document, Skip
from beambert.pipelines.corpus.reading import ReadOptions, read_part, sample_documents, split_file
from beambert.pipelines.corpus.transforms import read_documents
from beambert.pipelines.input_files import match_inputs
from beambert.pipelines.text.sentences import divided_word_notes

WRAPPED = """CHAPTER I

The harbour lies behind a long wall of stone, which keeps the waves of the
winter away. Nobody remembers who built it, and nobody knows how old the
lighthouse is. When the fog comes in, a bell is rung by hand.

"We wait for the evening," said the pilot. He had waited for it on every day
of the summer.
"""
JOINED = WRAPPED.replace("the\nw", "the w").replace("the\nl", "the l").replace("day\n", "day ")
JOINED = JOINED.replace("\n\n", "\n").strip()


def read(path: pathlib.Path) -> list:
    options = ReadOptions()
    (file,) = match_inputs([str(path)])
    parts = split_file(file, options)
    return [row for part in parts for row in read_part(part, options, ProgressTally(None))]


def test_every_format_gives_the_same_paragraphs(tmp_path):
    """A book as a file, as a row, as an article, and as an element of a pipeline."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    quoted = WRAPPED.replace('"', '""')
    (tmp_path / "a.txt").write_text(WRAPPED)
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": WRAPPED}) + "\n")
    (tmp_path / "a.csv").write_text(f'id,text\n1,"{quoted}"\n2,"{quoted}"\n')
    (tmp_path / "wiki_00").write_text(f'<doc id="1" title="A">\nA\n\n{WRAPPED}\n</doc>\n')
    pq.write_table(pa.table({"text": [WRAPPED]}), tmp_path / "a.parquet")
    for path in sorted(tmp_path.iterdir()):
        document = read(path)[0]
        assert (document.text, document.cleaned) == (JOINED, {"wrapped_line": 3}), path.name
    (document,) = read_documents(WRAPPED, ReadOptions(), ProgressTally(None))
    assert document.text == JOINED


@pytest.mark.parametrize(
    "text",
    [
        "Eggs\nFlour\nSugar\nA pinch of salt\n\nButter",
        "ok\n\nthanks, I will do that tomorrow then\n\nsee you",
        "Anna: Where is it?\nBert: On the hill.\nAnna: Which one?\nBert: The old one.",
        "春眠不覺曉。\n處處聞啼鳥。",
        "這座城市位於河流的北岸，人口大約有三萬人。\n城市的經濟以農業和小型工業為主要的收入來源。\n每年夏天有許多遊客來到這裡"
        "參觀古老的城牆。\n城牆是在十四世紀由當地的居民用石頭建造的。\n現在城牆的一部分已經成為公園供市民休息散步。",
        "यह शहर नदी के उत्तर में है और यहाँ तीस हज़ार लोग रहते हैं।\nशहर के लोग खेती करते हैं और छोटे कारखानों में काम करते हैं।\n"
        "हर साल गर्मियों में बहुत से यात्री यहाँ घूमने आते हैं।\nदीवार चौदहवीं सदी में पत्थर से बनाई गई थी और आज भी खड़ी है।",
        "\n\nAnna Berg (born 26 August 1998) is a Norwegian ski jumper.\nShe jumped at the games of 2018.",
        "x = 1\ny = 2\nreturn x + y",
        "river river river .\nhouse house house .\nwater water water .\n\nstone stone stone .",
    ],
)
def test_short_lines_are_not_wrapped(text):
    assert clean_text(text)[0].split("\n") == [line for line in text.split("\n") if line]


def test_sentences_stay_as_they_are():
    document = Document("one\ntwo\n", is_split=True)
    assert clean(document) is document


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Chinese, Japanese with an indented paragraph, Thai, and Korean, which has spaces.
        ("山上有一座很老的房子，没有人知道是谁\n建的。它有五扇窗户，其中三扇一直关着，\n另一边的"
         "花园一直通到河边。河里有一条\n旧船。", "山上有一座很老的房子，没有人知道是谁建的。它有五扇窗户，"
         "其中三扇一直关着，另一边的花园一直通到河边。河里有一条旧船。"),
        ("　丘の上に古い家がありました。だれが建\nてたのか、村の人はだれも知りません。窓\nは五つありま"
         "した。\n　庭は川まで続いています。", "丘の上に古い家がありました。だれが建てたのか、村の人はだれも"
         "知りません。窓は五つありました。\n庭は川まで続いています。"),
        ("บนเนินเขามีบ้านเก่าหลังหนึ่งซึ่งไม่มี\nใครรู้ว่าใครเป็นคนสร้างบ้านนี้มีหน้าต่าง\n"
         "ห้าบานและสวนยาวไปถึงแม่น้ำที่มีเรือ\nเก่า", "บนเนินเขามีบ้านเก่าหลังหนึ่งซึ่งไม่มีใครรู้ว่าใครเป็นคนสร้าง"
         "บ้านนี้มีหน้าต่างห้าบานและสวนยาวไปถึงแม่น้ำที่มีเรือเก่า"),
        ("पहाड़ी पर एक पुराना घर था और गाँव में कोई नहीं\nजानता था कि उसे किसने बनाया। उसमें पाँच खिड़कियाँ\nथीं जिनमें से "
         "तीन हमेशा बंद रहती थीं। बाग़ नदी\nतक जाता था।", "पहाड़ी पर एक पुराना घर था और गाँव में कोई नहीं जानता था कि उसे किसने "
         "बनाया। उसमें पाँच खिड़कियाँ थीं जिनमें से तीन हमेशा बंद रहती थीं। बाग़ नदी तक जाता था।"),
        ("언덕 위에는 아주 오래된 집이 있었고\n누가 그 집을 지었는지 아무도 몰랐다\n창문은 다섯 개가 "
         "있었다고 한다 그리고\n정원이 있었다", "언덕 위에는 아주 오래된 집이 있었고 누가 그 집을 지었는지 아무도 "
         "몰랐다 창문은 다섯 개가 있었다고 한다 그리고 정원이 있었다"),
    ],
)  # fmt: skip
def test_lines_are_joined_with_the_spaces_of_their_script(text, expected):
    assert clean_text(text)[0] == expected


DIVIDED = "The old mana{0}\nger of the har{0}\nbour was asked, and his ans{0}\nwer was short.\n"


@pytest.mark.parametrize("sign", ["\xad", "\xac", "\xad \n"])
def test_words_are_joined_where_the_sign_says_so(sign):
    text, counts = clean_text(DIVIDED.replace("{0}\n", sign + "\n" * ("\n" not in sign)))
    assert text == "The old manager of the harbour was asked, and his answer was short."
    assert counts["divided_word"] == 3
    assert clean_text("p \xac q, not\xac\xad")[0] == "p \xac q, not\xac\xad"


@pytest.mark.parametrize("sign", ["-", "\u2010"])
def test_hyphens_at_line_ends_are_said(sign):
    """A hyphen may belong to the word, so that it stays and there is a warning."""
    document = clean(Document(DIVIDED.replace("{0}", sign) * 2))
    assert f"mana{sign}ger of the har{sign}bour" in document.text
    (note,) = divided_word_notes([document])
    assert "hyphens divide 6 words" in note and f"mana{sign}ger" in note
    assert (
        divided_word_notes([clean(Document(WRAPPED.replace("long wall", "well-\nkept wall")))])
        == []
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The road went on\n\fand on over hills\nand far away.", "The road went on and on over hills and far away."),
        ("He read a book of\n\fGoethe in the\ngarden until noon.", "He read a book of Goethe in the garden until noon."),
        ("It was late.\n\n\fThe next day\nwas a good one.", "It was late.\nThe next day was a good one."),
        ("It was late and\n\n\f\n\ndark.", "It was late and dark."),
    ],
)  # fmt: skip
def test_pages(text, expected):
    found, counts = clean_text(text)
    assert found == expected and counts["page_break"] == 1


BOOK = WRAPPED + "\n" + WRAPPED
START, END = (f"*** {word} OF THE PROJECT GUTENBERG EBOOK X ***" for word in ("START", "END"))
HEADER = """This header should be the first thing seen. Do not change or edit it.

*****These Etexts Are Prepared By Thousands of Volunteers!*****

The Project Gutenberg Etext of X
*****This file should be named x10.txt or x10.zip*****
"""
SMALL_PRINT = """**The Legal Small Print**

***START**THE SMALL PRINT!**FOR PUBLIC DOMAIN ETEXTS**START***
Why is it here?
*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*
"""


@pytest.mark.parametrize(
    "note",
    [
        "Produced by A. Reader and the Team\n(http://www.example.net)\n\n\nTranscriber's note:\n\n   Italics"
        " are _so_.\n\n   A list is at the end.\n",
        "Note: Project Gutenberg also has an HTML version of this file\n      with pictures.\n\n      See x-h.htm\n",
        "Anmerkungen zur Transkription\n\nFehler wurden korrigiert.\n",
        "Note du transcripteur\n\nLes erreurs ont été corrigées.\n",
        "Notas del transcriptor:\n\nSe han corregido los errores.\n",
        "TRANSCRIBER'S NOTES\n\nErrors were corrected.\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("source", ["txt", "jsonl"])
def test_a_book_of_gutenberg_has_no_notes_of_transcribers(tmp_path, note, source):
    text = f"The Project Gutenberg eBook of X\n\n{START}\n\n{note}\n\n\n{BOOK}\n\n{END}\nLicence\n"
    path = tmp_path / f"a.{source}"
    path.write_text(text if source == "txt" else json.dumps({"text": text}) + "\n")
    (document,) = read(path)
    assert document.text == f"{JOINED}\n{JOINED}" and document.cleaned["licence"] == 1


@pytest.mark.parametrize(
    "end",
    ["End of The Project Gutenberg Etext of X", "*** Ende dieses Project Gutenberg Etextes ***", "Fin du Project"
     " Gutenberg Etext de X", ""],
)  # fmt: skip
def test_old_files_have_their_licence_behind_the_book(end):
    text = (
        f"{HEADER}\nThis etext was prepared by A. Reader.\n\n\n{BOOK}\n\n{end}\n\n\n{SMALL_PRINT}"
    )
    assert clean_text(text)[0] == f"{JOINED}\n{JOINED}"


def test_no_whole_book_is_lost():
    text = f"A book about Project Gutenberg.\n{BOOK}\n{START}\n"
    assert JOINED in clean_text(text)[0]


ARTICLE = (
    'Tree\n\nA tree is a <a href="Plant">plant</a>.\n\nSection::::History.\n\nTrees are old.\n'
    "BULLET::::- Oak\nBULLET::::1. Elm\n"
)


@pytest.mark.parametrize("source", ["doc", "json"])
def test_what_wikiextractor_writes(tmp_path, source):
    path = tmp_path / "wiki_00"
    rows = [ARTICLE, "Tree\n\n#WEITERLEITUNG Baum\n", "Tree\n\n#重定向 树\n"]
    if source == "doc":
        text = "".join(f'<doc id="1" url="u?curid=1" title="Tree">\n{row}</doc>\n' for row in rows)
    else:
        row = {"id": "1", "revid": "2", "url": "https://x.org/wiki?curid=1", "title": "Tree"}
        text = "".join(json.dumps(row | {"text": each}) + "\n" for each in rows)
    path.write_text(text)
    document, *redirects = read(path)
    assert document.text == "A tree is a plant.\nTrees are old."
    assert document.cleaned == {"tag": 2, "heading": 1, "list_item": 2}
    assert redirects == [Skip("redirect")] * 2


def test_lines_of_wikitext_are_no_documents(tmp_path):
    rows = ["", " = Robert Boulter = \n", "", " He is an actor . \n", " = = Career = = \n"]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    with pytest.raises(InputError, match="--format=wikitext"):
        sample_documents(match_inputs([str(path)]), ReadOptions())


@pytest.mark.parametrize("ending", ["txt", "jsonl"])
def test_lines_that_are_sentences_are_not_joined(tmp_path, ending):
    """With --sentences=line, also where they look like hard-wrapped text."""
    path = tmp_path / f"a.{ending}"
    path.write_text(WRAPPED if ending == "txt" else json.dumps({"text": WRAPPED}) + "\n")
    (file,) = match_inputs([str(path)])
    options = ReadOptions(joins_lines=False)
    (part,) = split_file(file, options)
    (document,) = read_part(part, options, ProgressTally(None))
    assert document.text.split("\n") == [line for line in WRAPPED.split("\n") if line]
    assert sample_documents([file], options) == [document]
