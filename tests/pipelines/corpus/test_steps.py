"""The steps of cleaning, whatever brought a document: a file, a column, a page, a pipeline."""

# ruff: noqa: E501

import io
import json
import pathlib
import textwrap

import pytest

from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.pipelines.corpus.cleaning import clean, clean_text, ends_sentence
from beambert.pipelines.corpus.documents import Document, Skip
from beambert.pipelines.corpus.formats import FORMATS, recognise
from beambert.pipelines.corpus.reading import (
    ReadOptions,
    layout_notes,
    read_part,
    recognise_formats,
    sample_files,
    split_file,
)
from beambert.pipelines.corpus.transforms import read_documents
from beambert.pipelines.input_files import match_inputs
from beambert.pipelines.text.sentences import split_sentences

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


@pytest.mark.parametrize("heading", ["CHAPTER I", "Chapter II", "Book Three", "Kapitel 4."])
def test_a_chapters_number_without_blank_lines_is_a_paragraph(heading):
    text = WRAPPED.replace("CHAPTER I\n\n", f"by a pilot\n{heading}\n")
    assert clean_text(text)[0] == JOINED.replace("CHAPTER I", f"by a pilot\n{heading}")


def test_a_chapter_that_a_sentence_names_is_no_heading():
    text = WRAPPED.replace("a bell is rung", "a bell is rung, see\nChapter II, and then")
    expected = JOINED.replace("a bell is rung", "a bell is rung, see Chapter II, and then")
    assert clean_text(text)[0] == expected


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
        ("在1998年创建的国立大学（Peking University）位于\n北京市海淀区，占地面积274公顷，现在约有在校学生\n4万人。", "在1998年创建的国立大学（Peking University）位于"
         "北京市海淀区，占地面积274公顷，现在约有在校学生4万人。"),
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


PRINTED = """Der alte Ha{0}
fen lag hinter einer Mauer, und niemand wuss{0}
te, wer sie gebaut hatte. Die Haupt{0}
und Nebentore waren immer verschlos{0}
sen, bis Anna{0}
Maria kam.
"""


@pytest.mark.parametrize("sign", ["-", "\u2010", "\u2011", "\u2e17"])
@pytest.mark.parametrize("whole_lines", [0, 150])
def test_words_are_joined_where_printed_lines_divide_many(sign, whole_lines):
    """Lines that end with the hyphens of compounds alone are fewer."""
    text = PRINTED.replace("{0}", sign)
    text += "sie ging weiter und weiter über den\nWeg, bis sie am Ende im Dorf war.\n" * (
        whole_lines // 2
    )
    found, counts = clean_text("Oben\n" + text)
    if whole_lines:
        assert f"Ha{sign}fen" in found and counts["line_end_hyphen"] == 4
        return
    assert "Hafen lag" in found and "wusste, wer" in found and "verschlossen, bis" in found
    assert f"Haupt{sign} und Nebentore" in found and f"Anna{sign}Maria" in found
    assert (counts["divided_word"], counts["line_end_hyphen"]) == (3, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The road went on\n\fand on over hills\nand far away.", "The road went on and on over hills and far away."),
        ("He read a book of\n\fGoethe in the\ngarden until noon.", "He read a book of Goethe in the garden until noon."),
        ("It was late.\n\n\fThe next day\nwas a good one.", "It was late.\nThe next day was a good one."),
        ("It was late and\n\n\f\n\ndark.", "It was late and dark."),
        ("It was late and\n\n   - 12 -\n\fdark.", "It was late and dark."),
        ("It was late and\n\f 13\n\ndark.\n1990", "It was late and dark.\n1990"),
        ("It was late and\n\n  xiv\n\fdark.", "It was late and dark."),
        ("It was late and\n\n  Page 12 of 30\n\fdark.", "It was late and dark."),
        ("It was late and\n\f12   THE OLD HOUSE\n\ndark.", "It was late and dark."),
        ("It was late and\n\n[Pg 12]\n\ndark.", "It was late and dark."),
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
        "Note sur la transcription: les fautes ont été corrigées.",
        "Hinweise zur Transkription\n\nFehler wurden korrigiert.\n",
        "Bemærkninger til den elektroniske udgave\n\nStavefejl er rettet.\n",
        "+----------------------------+\n| Note du transcripteur:     |\n|                            |\n+----------------------------+\n",
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


@pytest.mark.parametrize("note", ["Transcriber's Notes:", "Note au lecteur de ce fichier digital:"])
def test_notes_behind_a_book(note):
    text = f"{START}\n\n{BOOK}\n\n\n{note}\n\nErrors were fixed.\n\n{END}\n"
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
    rows += [f"Tree\n\n{redirect} X\n" for redirect in ("#تغییر_مسیر", "#पुनर्प्रेषित", "# redirect")]
    rows.append("Tree\n\n#Rivalry of towns is old.\n")
    if source == "doc":
        text = "".join(f'<doc id="1" url="u?curid=1" title="Tree">\n{row}</doc>\n' for row in rows)
    else:
        row = {"id": "1", "revid": "2", "url": "https://x.org/wiki?curid=1", "title": "Tree"}
        text = "".join(json.dumps(row | {"text": each}) + "\n" for each in rows)
    path.write_text(text)
    document, *redirects, last = read(path)
    assert document.text == "A tree is a plant.\nTrees are old."
    assert last.text == "#Rivalry of towns is old."
    assert document.cleaned == {"tag": 2, "heading": 1, "list_item": 2}
    assert redirects == [Skip("redirect")] * (len(rows) - 2)


def test_marks_of_wikiextractor_in_a_column(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": ARTICLE.partition("\n")[2]}))
    (document,) = read(path)
    assert document.text == "A tree is a plant.\nTrees are old."


def test_lines_of_wikitext_are_no_documents(tmp_path):
    rows = ["", " = Robert Boulter = \n", "", " He is an actor . \n", " = = Career = = \n"]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    with pytest.raises(InputError, match="--format=wikitext"):
        sample_files(match_inputs([str(path)]), ReadOptions())


BLOCK = "eine zeile\nund noch eine\n\nein ende\n"


@pytest.mark.parametrize(
    ("layout", "expected", "is_split"),
    [
        ("wrapped", "eine zeile und noch eine\nein ende", False),
        ("paragraphs", "eine zeile\nund noch eine\nein ende", False),
        ("sentences", "eine zeile\nund noch eine\nein ende", True),
    ],
)
@pytest.mark.parametrize("ending", ["txt", "jsonl"])
def test_a_flag_decides_how_lines_are_read(tmp_path, layout, expected, is_split, ending):
    path = tmp_path / f"a.{ending}"
    path.write_text(BLOCK if ending == "txt" else json.dumps({"text": BLOCK}) + "\n")
    (file,) = match_inputs([str(path)])
    options = ReadOptions(layout=layout)
    (part,) = split_file(file, options)
    (document,) = read_part(part, options, ProgressTally(None))
    assert (document.text, document.is_split) == (expected, is_split)
    (sample,) = sample_files([file], options)
    assert sample.documents == [document]
    (given,) = read_documents(BLOCK, options, ProgressTally(None))
    assert given == document


LOWER = (
    *("my old friend looked at the sea", "she sat down", "the girl opened the door and waited"),
    *("nobody smiled", "he took the letter for a while", "the dog barked", "it was late"),
)
RUSSIAN = (
    *("мы пришли к морю рано утром", "было тихо", "старик открыл дверь и долго смотрел"),
    *("никто не говорил", "она взяла письмо", "собака лаяла", "пошёл дождь"),
)
THAI = ("ประเทศไทยเป็นประเทศใหญ่", "เมืองหลวงคือกรุงเทพ", "มีคนอยู่มาก", "แม่น้ำไหลจากภูเขา", "น้ำใสมาก")
TIBETAN = ("བོད་ནི་ཡུལ་ཆེན་པོ་ཞིག་ཡིན།", "རྒྱལ་ས་ལྷ་ས་ཡིན།", "ཆུ་བོ་རི་ནས་འབབ༎", "རྒྱ་མཚོར་འགྲོ།")
ARABIC = (
    "ذهبنا إلى السوق في الصباح",
    "كان الجو باردا",
    "اشترى أبي خبزا وجبنا من البائع",
    "عدنا",
    "نام الطفل",
)


@pytest.mark.parametrize("lines", [LOWER, RUSSIAN, THAI, TIBETAN, ARABIC, LOWER[:2]])
@pytest.mark.parametrize("between", ["\n", " .\n"])
def test_sentences_on_lines_without_capitals_are_not_joined(lines, between):
    assert clean_text(between.join(lines))[0].split("\n") == between.join(lines).split("\n")


@pytest.mark.parametrize("book", [WRAPPED.lower(), PRINTED.replace("{0}", "-").lower()])
def test_wrapped_text_without_capitals_is_joined(book):
    assert clean_text(book * 3)[1]["wrapped_line"] > 8


def test_flags_without_effect_on_the_files_are_named(tmp_path):
    (tmp_path / "a.txt").write_text(WRAPPED)
    files = match_inputs([str(tmp_path / "a.txt")])
    options = ReadOptions(text_column="abstract", language_column="lang", encodings=("cp1252",))
    notes = layout_notes(sample_files(files, options), options)
    assert [each.partition("=")[0] for each in notes[1:]] == ["--text_column", "--language_column"]
    (tmp_path / "a.txt").write_text(json.dumps({"abstract": WRAPPED, "lang": "en"}) + "\n")
    assert len(layout_notes(sample_files(files, options), options)) == 1


def test_paragraph_lines(tmp_path):
    """A file of CC-100: documents between blank lines, each line a paragraph, however it ends."""
    path = tmp_path / "cc.txt"
    path.write_text("城市有一个市场\n每周一开放\n\nпришла зима\nи снег\n")
    options = ReadOptions("paragraphs")
    (part,) = split_file(match_inputs([str(path)])[0], options)
    found = list(read_part(part, options, ProgressTally(None)))
    assert found == [Document("城市有一个市场\n每周一开放"), Document("пришла зима\nи снег")]


@pytest.mark.parametrize(
    ("format", "layout"),
    [("lines", "wrapped"), ("paragraphs", "sentences"), ("markdown", "wrapped")],
)
def test_a_layout_without_effect_is_refused(tmp_path, format, layout):
    from beambert.pipelines.pretraining.job import PretrainingDataJob

    with pytest.raises(InputError, match=f"--layout={layout}: has no effect .*{format}"):
        PretrainingDataJob(vocab_file="v", output="o", format=format, layout=layout)
    with pytest.raises(InputError, match="--sentences=sat: has no effect with --format=lines"):
        PretrainingDataJob(
            vocab_file="v", output="o", format="lines", sentences="sat", sentence_model="."
        )
    (tmp_path / "a.md").write_text("# A\n\nText.\n")
    file = match_inputs([str(tmp_path / "a.md")])[0]
    with pytest.raises(InputError, match="a.md, since lines of markdown"):
        recognise_formats([file], ReadOptions(layout="wrapped"))


def test_headings_of_wikiextractor_go():
    """Short lines of an article with longer ones, but for its first."""
    body = "She was born in Lyon in 1900 and came to the north with her parents in the cold and wet winter of 1910, which they hated.\nEarly life.\nChildhood and école.\nShe grew up there, too.\nNotes.\n"
    article = f'<doc id="1" url="" title="A">\nA\n{body}</doc>\n'
    stub = '<doc id="2" url="" title="B">\nB\nB is a moth.\n</doc>\n'
    found = list(FORMATS["wikiextractor"].read_lines(io.BytesIO((article + stub).encode())))
    texts = [body.partition("\n")[0] + "\nShe grew up there, too.", "B is a moth."]
    assert [document.text.strip() for document in found] == texts
    assert found[0].cleaned["heading"] == 3


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("It is long and . She left.", "She left."),
        ("The battleship , sank. She left.", "She left."),
        ('She sang in "" and in "Leap!". She left.', "She left."),
        ("Let formula_1 be a number. She left.", "She left."),
        ("Ann (born ) left. He (see (a) ) came.", "Ann left. He (see (a) ) came."),
        ("It is here.\nCrew\n16) St. George Church\nHere.\nProduction", "It is here.\nHere."),
        (f"It is {'very ' * 20}old.\n19th century.\nCrew", f"It is {'very ' * 20}old."),
        ("京都は日本の都市である。\n大阪も都市だ", "京都は日本の都市である。\n大阪も都市だ"),
    ],
)
def test_holes_and_remains_of_lists_in_articles_of_wikiextractor_go(body, expected):
    article = f'<doc id="1" url="" title="A">\nA\n\n{body}\n</doc>\n'
    (found,) = FORMATS["wikiextractor"].read_lines(io.BytesIO(article.encode()))
    assert found.text.strip() == expected


@pytest.mark.parametrize("width", [40, 76, 132])
@pytest.mark.parametrize("between", ["\n", "\n\n"])
@pytest.mark.parametrize("count", [1, 4])
def test_wrapped_lines_of_any_width_are_joined(width, between, count):
    """Also double-spaced ones, and those of a text all of whose lines begin with capitals."""
    sentence = (
        "The team of 1912 was part of the National League of Northern Women, and then of the Royal Association "
        "of Southern Clubs, until the year 1938 in which Charlotte Amalia of Nassau left it for Berlin."
    )
    text = between.join(line for _ in range(count) for line in textwrap.wrap(sentence, width))
    assert split_sentences(clean(Document(text))) == [sentence] * count


# Two paragraphs of two sentences in scripts with and without capitals and spaces.
IN_LANGUAGES = {
    "cs": "Starý dům stál na konci uličky a nikdo ve vesnici nevěděl, kdo jej postavil. Na druhé straně byla řeka.\nChlapec hodil do vody kámen a díval se na kruhy, které rostly a mizely. Jeho sestra tam nechtěla jít.",
    "hy": "Հին տունը կանգնած էր նրբանցքի վերջում, և գյուղում ոչ ոք չէր հիշում, թե ով էր այն կառուցել։ Մյուս կողմում այգին իջնում էր դեպի գետը։\nՏղան քար նետեց ջուրը և նայեց շրջաններին, որոնք մեծանում էին։ Նրա քույրը չէր ուզում գնալ այնտեղ։",
    "ar": "كان البيت القديم يقع في نهاية الطريق، ولم يكن أحد في القرية يتذكر من بناه. وعلى الجانب الآخر كانت الحديقة.\nرمى الصبي حجرا في الماء ونظر إلى الدوائر التي كبرت ثم اختفت. لم ترد أخته أن تذهب إلى هناك.",
    "hi": "पुराना घर गली के अंत में खड़ा था, और गाँव में किसी को याद नहीं था कि उसे किसने बनाया था। दूसरी ओर बगीचा था।\nलड़के ने पानी में एक पत्थर फेंका और उन घेरों को देखा जो बढ़ते और मिट जाते थे। उसकी बहन वहाँ जाना नहीं चाहती थी।",
    "ko": "낡은 집은 골목 끝에 서 있었고, 마을에서는 아무도 누가 그 집을 지었는지 기억하지 못했다. 반대편에는 정원이 있었다.\n소년은 물에 돌을 던지고 커졌다가 사라지는 동그라미를 바라보았다. 누나는 그곳에 가고 싶어 하지 않았다.",
    "zh": "老房子在小路的尽头，村里没有人记得是谁建造的。另一边，花园一直延伸到河边，芦苇丛中有一条旧船。\n男孩把一块石头扔进水里，看着水圈变大然后消失。他的姐姐不想去那里，因为地板已经腐烂了。",
}


@pytest.mark.parametrize("language", IN_LANGUAGES)
@pytest.mark.parametrize("between", ["\n\n", "\n"])
def test_wrapped_lines_of_languages_are_joined(language, between):
    """In texts of a few lines, with and without blank lines between the paragraphs."""
    paragraphs = IN_LANGUAGES[language].split("\n")
    for width in (40, 76):
        wrapped = [
            textwrap.wrap(each, width // (1 + (language == "zh"))) for each in paragraphs * 2
        ]
        text = between.join(map("\n".join, wrapped))
        found = clean_text(text)[0]
        if between == "\n\n":
            assert found.split("\n") == paragraphs * 2
        found += "\n" + clean_text("\r\n".join(wrapped[0]))[0]
        assert all(line[-1] in ".。।։" for line in found.split("\n"))
    unmarked = [line.rstrip(".।。։") for line in paragraphs]
    lines = "\n\n".join(["\n".join(unmarked)] * 4)
    assert clean_text(lines)[0].split("\n") == unmarked * 4


def test_lines_that_begin_with_signs_of_vowels_are_joined():
    sentence = "လူများစွာသည်နေ့စဉ်ဘတ်စ်ကားဖြင့်အလုပ်သွားကြသည်။"
    lines = textwrap.wrap(sentence * 8, 47)
    assert 2 * sum(line[0].isalpha() for line in lines) < len(lines)
    assert clean_text("\n".join(lines))[0] == sentence * 8


@pytest.mark.parametrize("language", IN_LANGUAGES)
def test_lines_of_several_sentences_are_no_sentences(language):
    """Those of CC-100 are paragraphs; with a sentence a line the format is `lines`."""
    paragraphs = IN_LANGUAGES[language].split("\n")
    sentences = [each for line in paragraphs for each in split_sentences(Document(line), language)]
    assert len(sentences) == 4
    for lines, name in ((paragraphs, "text"), (sentences, "lines")):
        assert recognise("\n\n".join(["\n".join(lines)] * 4).encode()).name == name
    assert (
        recognise("\n\n".join(map("\n".join, map(textwrap.wrap, paragraphs))).encode()).name
        == "text"
    )


@pytest.mark.parametrize(
    ("text", "cleaned", "count"),
    [
        (
            "Ann wrote:\n> The ship is old and the\n> crew is young, but they\n>> It left.\n"
            "Yes, I think so too and I\nsaw it.\n",
            "Ann wrote:\nThe ship is old and the crew is young, but they\nIt left.\n"
            "Yes, I think so too and I saw it.",
            4,
        ),
        (
            "So it is.\n\nOn Monday, Ann Lee <ann@x.org> wrote:\n> Is it\n> so?\n\n-- \nBen Lee\nhttp://x.org\n",
            "So it is.\nIs it\nso?",
            2,
        ),
        ("5 is\n> 4\nand so on.", "5 is\n> 4\nand so on.", 0),
    ],
)
def test_quoted_lines_of_mail(text, cleaned, count):
    found, counts = clean_text(text)
    assert (found, counts["quotation_mark"]) == (cleaned, count)


def test_double_spaced_lines_of_forty_columns_are_joined():
    paragraph = (
        "The spring of the year was remarkable, throughout the western counties, for drought; I do "
        "not know how it may be in the east of England, but here no rain had come for a month."
    )
    assert clean_text("\n\n".join(textwrap.wrap(paragraph, 40)))[0] == paragraph


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (r"The lane.\nNobody\nknew \"it\".\n\nThe sea.", 'The lane. Nobody knew "it".\nThe sea.'),
        (r"Der Ort.\r\nEr hat B\u00fccher \ud83d\ude00.", "Der Ort.\nEr hat Bücher 😀."),
        (r"水。\n好。\ud83d", "水。\n好。\\ud83d"),
        (r"Write print('a\nb') in C:\new for it.", r"Write print('a\nb') in C:\new for it."),
        (r'Write print("It is.\n") for C:\New.', r'Write print("It is.\n") for C:\New.'),
    ],
)
def test_line_ends_that_were_escaped_twice(text, cleaned):
    assert clean_text(text)[0] == cleaned


def test_lines_of_a_log_are_not_joined():
    log = "".join(f'127.0.0.{n} - [10/Oct/2000] "GET /a.gif" 200 2326\n' for n in range(9))
    assert clean_text(log)[0] == log.strip()


def test_underlined_headings():
    text = "The ship\n========\n\nIt left.\n\nThe crew\n~~~~~~~~\nThey sang.\n-----\nIt rained.\n"
    found, counts = clean_text(text)
    assert found == "It left.\nThey sang.\nIt rained."
    assert counts == {"heading": 2, "ornament": 1}


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("Er schrieb dem König einen Brief über die Sage,\n\ndie er kannte.\n\nSie ging.", 1),
        ("Он написал королю длинное письмо о том, что он\nвидел.\nОна ушла.", 1),
        ("Она написала королю длинное письмо о том, что было;\nон спал.\nОна ушла.", 1),
        ("The letter that he wrote to the old king about the\n\ntale was long, and\n\nsad.", 2),
        ("the letter that he wrote to the old king about the\ntale was long, and\nsad.", 0),
        ("The letter that he wrote to the old king was long.\niPads are there.", 0),
        ("A list of what they had with them:\napples\npears", 0),
    ],
)
def test_a_line_in_small_letters_continues_a_sentence(text, joined):
    """Also where the text as a whole is not wrapped, and across blank lines."""
    found, counts = clean_text(f"{text}\n{'They came late. ' * 20}")
    assert counts["continued_line"] == joined
    assert found.count("\n") == len(text.split("\n")) - text.count("\n\n") - joined


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Done.", True),
        ("“Done!”_\u200e", True),
        ("Done; ", False),
        ("done;", False),
        ("Τι είναι;»", True),
        ("ἔστιν ᾧ\u037e", True),
        ("完了。」", True),
        ("»", False),
        ("", False),
    ],
)
def test_ends_of_sentences(line, expected):
    assert ends_sentence(line) == expected
