"""Corpora that are not UTF-8: what their folders show is decided before anything is read."""

import codecs
import random

import pytest

from beambert.errors import InputError
from beambert.pipelines.corpus import charsets, encodings
from beambert.pipelines.corpus.charsets import Assumed, decode
from beambert.pipelines.corpus.documents import Document, Reject
from beambert.pipelines.corpus.parts import FilePart
from beambert.pipelines.corpus.plain_text import PlainText
from beambert.pipelines.corpus.reading import (
    ReadOptions,
    describe_formats,
    find_encodings,
    read_part,
)
from beambert.pipelines.files.input_files import match_inputs

# ruff: noqa: E501

ENGLISH = (
    "The company said on Monday that it was to sell the plant and that the work of the staff is "
    "safe for the year.\n\nAnalysts in the city had expected it, and the shares of the firm rose.\n"
)
# A few paragraphs of each, in the words of everyday prose.
PARAGRAPHS = {
    ("Russian", "cp1251"): "Утром он вышел из дома и пошёл к реке, где его ждали друзья. Погода была ясная, и солнце уже поднялось над лесом.\n\nОни долго говорили о том, что случилось вчера, и решили больше никогда не возвращаться к этому разговору.\n",
    ("Japanese", "cp932"): "朝早く家を出て、川のほとりまで歩いて行った。友達はもうそこで待っていて、空はすっかり晴れていた。\n\n私たちは昨日のことについて長いあいだ話し合い、もう二度とその話はしないと決めた。\n",
    ("Chinese", "gb18030"): "清晨他离开家，走到河边，朋友们已经在那里等他。天气晴朗，太阳刚刚升到树林的上方。\n\n他们谈了很久昨天发生的事情，最后决定以后再也不提起这件事，然后一起回到城里去工作。\n",
    ("Korean", "euc-kr"): "아침에 그는 집을 나와 강가로 걸어갔다. 친구들은 이미 그곳에서 그를 기다리고 있었고 하늘은 맑았다.\n\n그들은 어제 있었던 일에 대해 오랫동안 이야기했고 다시는 그 이야기를 하지 않기로 했다.\n",
    ("Polish", "cp1250"): "Rano wyszedł z domu i poszedł nad rzekę, gdzie czekali na niego przyjaciele. Pogoda była piękna, a słońce wzeszło już nad lasem.\n\nDługo rozmawiali o tym, co się stało wczoraj, i postanowili, że do tej rozmowy nie będą już wracać.\n",
    ("Hungarian", "cp1250"): "Reggel kilépett a házból, és elindult a folyó felé, ahol a barátai már vártak rá. Az idő szép volt, és a nap már az erdő fölé emelkedett.\n\nSokáig beszélgettek arról, hogy mi történt tegnap, és úgy döntöttek, hogy ezt a beszélgetést nem folytatják többé, mert nem volt értelme.\n",
    ("French", "cp1252"): "Le matin, il sortit de la maison et marcha jusqu’à la rivière, où ses amis l’attendaient déjà. Le temps était beau et le soleil s’était levé sur la forêt.\n\nIls parlèrent longtemps de ce qui était arrivé la veille et décidèrent de ne plus revenir sur le sujet.\n",
    ("English", "cp1252"): ENGLISH + "“It’s a good price,” said Ms Jones — “£5 a share.”\n",
}  # fmt: skip


class NoTally:
    def add(self, **counts):
        pass


def read(folder, given="auto", format_name="auto"):
    """What is assumed, the lines about it, and what each file gives by its name."""
    files = match_inputs([f"{folder}/*"])
    found, notes = find_encodings(files, format_name, given)
    options = ReadOptions(format_name, encodings=found)
    documents = {
        file.path.rpartition("/")[2]: list(read_part(FilePart(file, "auto"), options, NoTally()))
        for file in files
    }
    return found, notes, documents


@pytest.mark.parametrize(("language", "codec"), PARAGRAPHS)
def test_a_few_paragraphs_show_their_encoding(language, codec):
    text = PARAGRAPHS[language, codec]
    found, encoding = decode(text.encode(codec))
    assert found == text
    # Japanese and Korean have supersets of the encodings' official names.
    assert codecs.lookup(encoding).name in {codecs.lookup(codec).name, "cp949"}


def news(number: int, sentence: str) -> str:
    generator = random.Random(number)
    return ENGLISH + f"\nIt is the {generator.randint(1, 99)}th of {sentence}.\n"


SIGNS = ["£{} for it", "the café", "“his” £{}", "it’s {}", "Zoë", "a {}° turn", "½ of it", "Peña"]


def test_pounds_in_english_are_no_japanese(tmp_path):
    """One byte beyond ASCII in a file, as in a collection of news."""
    texts = {f"{n:03d}.txt": news(n, SIGNS[n % 8].format(n)) for n in range(80)}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text.encode("cp1252"))
    (tmp_path / "short.txt").write_bytes(b"Price: \xa35\n")
    found, notes, documents = read(tmp_path)
    assert found.of(f"{tmp_path}/any.txt") == Assumed("cp1252")
    for name, text in texts.items():
        (document,) = documents[name]
        assert document.text.split() == text.split(), name
        assert document.encoding == "cp1252"
    assert documents["short.txt"] == [Document("Price: £5", encoding="cp1252")]
    assert len(notes) == 1
    assert notes[0].startswith(
        f"assumed windows-1252 for 81 files, such as {tmp_path}/000.txt: “… "
    )
    assert "£0" in notes[0] and notes[0].endswith("give --encoding= to decide")


def test_a_short_text_alone_is_rejected(tmp_path):
    (tmp_path / "short.txt").write_bytes(b"Price: \xa35\n")
    (tmp_path / "utf8.txt").write_text("Price: £5\n")
    found, notes, documents = read(tmp_path)
    assert not found.to_json()
    (reject,) = documents["short.txt"]
    assert reject == Reject(
        1,
        "not_utf8",
        "byte 0xa3 on line 1 is not UTF-8, and no other encoding is certain; give --encoding=",
    )
    assert documents["utf8.txt"] == [Document("Price: £5")]
    assert notes == [
        f"no encoding is certain from the beginning of 1 file, such as {tmp_path}/short.txt: "
        r"b'Price: \xa35\n'; give --encoding= to decide"
    ]
    _, notes, documents = read(tmp_path, "windows-1252")
    assert notes == []
    assert documents["short.txt"] == [Document("Price: £5", encoding="cp1252")]
    assert documents["utf8.txt"] == [Document("Price: £5")]


def test_folders_are_decided_apart_and_strong_evidence_wins(tmp_path):
    russian, french = PARAGRAPHS["Russian", "cp1251"], PARAGRAPHS["French", "cp1252"]
    for name, text, codec in (("ru", russian, "cp1251"), ("fr", french, "cp1252")):
        (tmp_path / name).mkdir()
        for n in range(12):
            (tmp_path / name / f"{n}.txt").write_bytes(text.encode(codec))
    (tmp_path / "fr" / "guest.txt").write_bytes(russian.encode("cp1251"))
    (tmp_path / "ru" / "short.txt").write_bytes("№ 5".encode("cp1251"))
    files = match_inputs([f"{tmp_path}/*/*"])
    found, notes = find_encodings(files, "auto", "auto")
    assert found.of(f"{tmp_path}/fr/1.txt") == Assumed("cp1252")
    assert found.of(f"{tmp_path}/ru/1.txt") == Assumed("cp1251")
    assert found.of(f"{tmp_path}/else/1.txt") == Assumed("")
    assert len(notes) == 2
    options = ReadOptions(encodings=found)
    texts = {}
    for file in files:
        (document,) = read_part(FilePart(file, "auto"), options, NoTally())
        texts[file.path.removeprefix(f"{tmp_path}/")] = document.text
    assert texts["fr/guest.txt"].split() == russian.split()
    assert texts["fr/3.txt"].split() == french.split()
    assert texts["ru/short.txt"] == "№ 5"


def test_the_samples_of_a_folder_are_judged_together(tmp_path):
    """No file is long enough to show a language; all are."""
    for n in range(40):
        sentence = PARAGRAPHS["French", "cp1252"].split(" ")[n % 5 :: 5]
        (tmp_path / f"{n:02d}.txt").write_bytes(" ".join(sentence).encode("cp1252") + b"\n")
    found, _, documents = read(tmp_path)
    assert found.of(f"{tmp_path}/00.txt") == Assumed("cp1252")
    assert all(isinstance(document, Document) for (document,) in documents.values())


def test_sentence_lines_take_what_is_assumed(tmp_path):
    text = "He paid £5.\nIt was the end of it.\n\nThe café is in the city.\nIt is open.\n"
    text = "\n".join([text] * 3)
    (tmp_path / "a.txt").write_bytes(text.encode("cp1252"))
    _, _, documents = read(tmp_path)
    assert len(documents["a.txt"]) == 6
    assert documents["a.txt"][0].text == "He paid £5.\nIt was the end of it.\n"
    assert documents["a.txt"][0].is_split


def test_damage_in_utf8_is_no_other_encoding(tmp_path):
    for n in range(5):
        (tmp_path / f"{n}.txt").write_bytes(PARAGRAPHS["French", "cp1252"].encode("cp1252"))
    (tmp_path / "damaged.txt").write_bytes(PARAGRAPHS["French", "cp1252"].encode() + b"\xff\n")
    _, _, documents = read(tmp_path)
    (reject,) = documents["damaged.txt"]
    assert reject.reason == "not_utf8"


@pytest.mark.parametrize("format_name", ["jsonl", "wikiextractor", "wikitext"])
def test_formats_of_programs_are_utf8_unless_the_user_says_otherwise(tmp_path, format_name):
    data = {
        "jsonl": b'{"text": "caf\xe9"}\n',
        "wikiextractor": b'<doc id="1" title="T">\nT\n\ncaf\xe9\n</doc>\n',
        "wikitext": b" = A = \n\n caf\xe9\n",
    }[format_name]
    (tmp_path / "a").write_bytes(data)
    (tmp_path / "b").write_bytes(PARAGRAPHS["French", "cp1252"].encode("cp1252"))
    assert [type(each) for each in read(tmp_path)[2]["a"]] == [Reject]
    (document,) = read(tmp_path, "latin-1")[2]["a"]
    assert (document.text.strip(), document.encoding) == ("café", "iso8859-1")


def test_the_number_of_files_and_bytes_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(encodings, "SAMPLED_FILES", 10)
    for n in range(95):
        (tmp_path / f"{n:02d}.txt").write_bytes(news(n, "£5").encode("cp1252"))
    opened = []
    monkeypatch.setattr(encodings, "sample_of", lambda file, raw: opened.append(len(raw)))
    assert read(tmp_path)[1] == []
    assert len(opened) == 10
    (tmp_path / "00.txt").write_bytes(b"A line of text.\n" * 100_000)
    read(tmp_path)
    assert max(opened) == 1 << 16


def test_unknown_encoding():
    with pytest.raises(InputError, match=r"^--encoding=latin-0: not known; name one such as"):
        find_encodings([], "auto", "latin-0")


def test_files_of_several_formats_are_said(tmp_path):
    """A text that is cut into lines becomes many documents, which nobody would notice."""
    (tmp_path / "a.txt").write_text(ENGLISH)
    (tmp_path / "b.jsonl").write_text('{"text": "the river is wide"}\n')
    (tmp_path / "c.jsonl").write_text('{"text": "the town is old"}\n')
    files = match_inputs([str(tmp_path / "*")])
    _, notes = find_encodings(files, "auto", "auto")
    (note,) = notes
    assert note.startswith(f"assumed formats: 2 jsonl, such as {tmp_path}/b.jsonl; 1 ")
    assert note.endswith("/a.txt; give --format= to decide")
    assert find_encodings(files[1:], "auto", "auto")[1] == []


CZECH = "Ráno vyšel z domu a šel k řece, kde na něj už čekali přátelé. Počasí bylo krásné a slunce už vystoupilo nad les.\n\nDlouho mluvili o tom, co se stalo včera, a rozhodli se, že se k tomu rozhovoru už nikdy nevrátí.\n"
SHORT = {
    ("iso8859_2", CZECH): ENGLISH + "\nHe went to Plzeň in May.\n",
    ("cp949", PARAGRAPHS["Korean", "euc-kr"]): "걸어갔다 걸어갔다 " * 9 + "\n",
}


@pytest.mark.parametrize(("codec", "text"), SHORT)
def test_an_uncertain_file_takes_the_encoding_of_its_folder(tmp_path, codec, text):
    """A name in English shows another encoding by chance, and short Korean words are UTF-8."""
    for n in range(11):
        (tmp_path / f"{n:02d}.txt").write_bytes(text.encode(codec))
    odd = SHORT[codec, text]
    (tmp_path / "odd.txt").write_bytes(odd.encode(codec))
    assert charsets.choose_encoding(odd.encode(codec), Assumed()) != codec
    _, _, documents = read(tmp_path)
    (document,) = documents["odd.txt"]
    assert (document.text.split(), document.encoding) == (odd.split(), codec)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (
            b"at \xe1\x01 home\n",
            "is not UTF-8, and no other encoding is certain (the files beside ",
        ),
        ("čekali přátelé".encode() + b"\xe1", "is not UTF-8, as most others are"),
    ],
)
def test_the_reason_is_true_where_the_bytes_could_be_decoded(raw, reason):
    (reject,) = PlainText().read_lines([raw], assumed=Assumed("iso8859_2"))
    assert f"byte 0xe1 on line 1 {reason}" in reject.detail
    (reject,) = PlainText().read_lines([b"\xe1"], assumed=Assumed("cp949"))
    assert reject.detail == "byte 0xe1 on line 1 is not UTF-8 or euc-kr"


CZECH = "Řekli, že přátelé čekali, až přijde řidič číslo {}, který už dávno není na světě."


def czech(utf8_lines: int, others: int, encoding: str = "cp1250") -> bytes:
    lines = [CZECH.format(n).encode("utf-8" if n < utf8_lines else encoding) for n in range(60)]
    return b"\n".join(lines[: utf8_lines + others]) + b"\n"


@pytest.mark.parametrize("counts", [(30, 30), (6, 54), (54, 6)])
def test_a_file_that_mixes_encodings_is_told_so(tmp_path, counts):
    (tmp_path / "a.txt").write_bytes(czech(*counts))
    line = counts[0] + 1
    _, notes, documents = read(tmp_path)
    (reject,) = documents["a.txt"]
    assert (reject.line, reject.reason) == (line, "not_utf8")
    assert reject.detail == (
        f"byte 0xd8 on line {line} is not UTF-8, but {counts[0]} lines with letters beyond ASCII "
        "are: the text mixes encodings, or is damaged; convert its lines to UTF-8"
    )
    assert all("give --encoding" not in note for note in notes)
    # The same is said where the user has followed older advice.
    given = Assumed("cp1250", is_given=True)
    (again,) = PlainText().read_lines([czech(*counts)], assumed=given)
    assert again == reject


def test_the_note_on_mixed_encodings(tmp_path):
    (tmp_path / "a.txt").write_bytes(czech(6, 54))
    _, notes, _ = read(tmp_path)
    assert notes == [
        f"encodings are mixed in 1 file, such as {tmp_path}/a.txt: line 7 is not UTF-8, but others "
        "are; convert its lines to UTF-8"
    ]


@pytest.mark.parametrize(
    "raw",
    [
        czech(1, 0),
        czech(30, 0),
        czech(0, 30),
        czech(1, 59),
        b"a\nb\xe1\n",
        czech(0, 50, "iso8859_2"),
    ],
)
def test_other_texts_mix_none(raw):
    assert charsets.utf8_lines_of_mixed(raw) == 0


def test_short_words_of_korean_are_not_mixed():
    """The three commonest words of four bytes that are UTF-8 by chance, among many others."""
    words = ["가나", "다라", "마바", "사아", "자차", "카타", "파하", "학교", "선생", "사람", "나라"]
    raw = "\n".join(first + second for first in words for second in words).encode("cp949")
    assert charsets.utf8_lines_of_mixed(raw) == 0


def test_a_sample_of_the_files_is_said():
    assert describe_formats({"a": "text", "b": "jsonl"}, 2)[0].startswith(
        "assumed formats of the 2 files looked at: 1 "
    )
