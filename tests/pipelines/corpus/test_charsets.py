"""Encodings: what Python's own codecs wrote is read back exactly, or not at all."""

import codecs
import json
import pathlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.errors import InputError
from beambert.pipelines.corpus import charsets
from beambert.pipelines.corpus.charsets import Assumed, decode

# ruff: noqa: E501  (a letter is wider than one place in some scripts)

# The preamble of the Universal Declaration of Human Rights, in the public domain.
GOLDEN = pathlib.Path(__file__).parents[2] / "golden"
PREAMBLES = json.loads((GOLDEN / "preambles.json").read_text("utf-8"))
exact = settings(derandomize=True, max_examples=100, deadline=None, database=None)

SENTENCES = {
    "French": "Les élèves étaient assis près de la fenêtre où l'été déjà finissait; le maître, très "
    "âgé, expliquait à ses élèves que la forêt brûlée renaîtrait. Ça ne fait rien, répondit-il, "
    "voilà une idée française. ",
    "German": "Die Größe der Bäume überraschte die müden Wanderer, denn früher hätten sie für "
    "möglich gehalten, daß über den Flüssen höhere Wälder wüchsen. ",
    "English": "“It’s no use,” said Alice — “I can’t explain myself, you see.” The cat only grinned "
    "when it saw Alice, and she thought it had a good nature. ",
    "Spanish": "El veloz murciélago hindú comía feliz cardillo y kiwi. La cigüeña tocaba el saxofón "
    "detrás del palenque de paja. Mañana será otro día, señor. ",
    "Swedish": "Under sommaren åkte många familjer till skärgården för att bada och äta på öarna. "
    "Flygande bäckasiner söka hwila på mjuka tuvor. ",
    "Italian": "Perché non è venuto più? Così è la città, dove ogni novità è già vecchia. La libertà "
    "e l'unità sono le virtù. ",
    "Portuguese": "À noite, vovô Kowalsky vê o ímã cair no pé do pinguim queixoso. Não há coração "
    "que não sinta a emoção da canção. ",
    "Polish": "Zażółć gęślą jaźń. W Szczebrzeszynie chrząszcz brzmi w trzcinie i Szczebrzeszyn z "
    "tego słynie. Litwo, ojczyzno moja, ty jesteś jak zdrowie. ",
    "Czech": "Když se ráno probudil, zjistil, že venku sněží a že město je úplně tiché. Děti běžely "
    "ke škole. Příliš žluťoučký kůň úpěl ďábelské ódy. ",
    "Hungarian": "A magyar nyelv az uráli nyelvcsalád tagja, és körülbelül tizenhárom millió ember "
    "beszéli szerte a világon. Árvíztűrő tükörfúrógép. ",
    "Turkish": "Türkçe dünyanın en çok konuşulan dillerinden biridir ve İstanbul büyük bir şehirdir. "
    "Pijamalı hasta yağız şoföre çabucak güvendi. ",
    "Lithuanian": "Įlinkdama fechtuotojo špaga sublykčiojusi pragręžė apvalų arbūzą. Lietuvių kalba "
    "yra viena iš seniausių gyvų kalbų. ",
    "Russian": "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива "
    "по-своему. Все смешалось в доме Облонских. Жена узнала, что муж был в связи. ",
    "Ukrainian": "Жебракують філософи при ґанку церкви в Гадячі, ще й шатро їхнє п'яне знаємо. "
    "Україна є державою у східній Європі. ",
    "Greek": "Η ελληνική γλώσσα είναι μία από τις αρχαιότερες γλώσσες του κόσμου και μιλιέται ακόμα "
    "σήμερα. ",
    "Hebrew": "דג סקרן שט בים מאוכזב ולפתע מצא לו חברה. השפה העברית היא שפה שמית המדוברת בעיקר "
    "בישראל. ",
    "Arabic": "اللغة العربية هي أكثر اللغات السامية تحدثا، وإحدى أكثر اللغات انتشارا في العالم. ",
    "Japanese": "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所でニャーニャー泣いていた事だけは記憶している。",
    "Chinese": "天地玄黄,宇宙洪荒。日月盈昃,辰宿列张。中国人民站起来了,我们今天开始学习新的课程。",
    "Korean": "대한민국의 수도는 서울이며 인구는 약 천만 명이다. 한국어는 한반도에서 사용되는 언어이다. ",
    "Thai": "ภาษาไทยเป็นภาษาที่มีระดับเสียงของคำแน่นอน และเป็นภาษาราชการของประเทศไทย ",
}
CODECS = [
    "latin-1", "cp1252", "cp1250", "iso8859-2", "cp1251", "koi8-r", "koi8-u", "cp1253", "cp1254",
    "cp1255", "cp1256", "cp1257", "cp932", "euc-jp", "cp949", "gb18030", "big5",
    "tis-620", "cp437", "cp850", "cp866", "mac-roman",
]  # fmt: skip


def encodings_of(text: str) -> list[str]:
    def can_hold(codec: str) -> bool:
        try:
            return bool(text.encode(codec))
        except UnicodeEncodeError:
            return False

    return list(filter(can_hold, CODECS))


CASES = [(language, codec) for language, text in SENTENCES.items() for codec in encodings_of(text)]


@pytest.mark.slow
@pytest.mark.parametrize(("language", "codec"), CASES)
@pytest.mark.parametrize("times", [1, 30])
def test_read_back_exactly_or_not_at_all(language, codec, times):
    text = SENTENCES[language] * times
    try:
        found, _ = decode(text.encode(codec))
    except UnicodeDecodeError:
        return
    assert found == text


@pytest.mark.parametrize(
    ("language", "codec", "name"),
    [
        ("French", "latin-1", "cp1252"),
        ("German", "latin-1", "cp1252"),
        ("English", "cp1252", "cp1252"),
        ("Spanish", "latin-1", "cp1252"),
        ("Swedish", "latin-1", "cp1252"),
        ("Russian", "cp1251", "cp1251"),
        ("Russian", "koi8-r", "koi8_r"),
        ("Greek", "cp1253", "cp1253"),
        ("Japanese", "cp932", "cp932"),
        ("Chinese", "gb18030", "gb18030"),
        ("Korean", "cp949", "cp949"),
        ("French", "mac-roman", "mac_roman"),
        ("German", "cp850", "cp850"),
        ("Spanish", "cp437", "cp850"),  # The letters of Spanish are the same bytes in both.
        ("Russian", "cp866", "cp866"),
        ("Russian", "mac-cyrillic", "mac_cyrillic"),
        ("Russian", "iso8859-5", "iso8859_5"),
    ],
)
def test_the_usual_ones_are_told(language, codec, name):
    text = SENTENCES[language] * 30
    assert decode(text.encode(codec)) == (text, name)


# Texts that were read in the encoding after them.
MISTAKEN = [
    ("Команда ls в Debian: не удалось открыть файл, use the option -z or -s to do so. " * 3,
     "cp1251", "cp1250"),
    ("Я не знаю, моя ли это вина. Явная ошибка, и я прошу прощения за неё. " * 3,
     "mac_cyrillic", "cp1251"),
    ("Ο Άγγελος και η Άννα είναι στο σπίτι, και η μέρα είναι ωραία. " * 3, "iso8859-7", "cp1253"),
    ("Programmet på maskinen kunne ikke åbne filen i mappen. Prøv at læse den. Se også: a, s, v. "
     "Na, je, to do.", "cp1252", "cp1250"),
    ("Não foi possível abrir a opção do ficheiro. Use -s ou -z e a opção do comando, e não o outro. "
     "A versão não é a do pacote.", "cp1252", "cp1250"),
    ("Não foi possível abrir a opção do ficheiro. Use -s ou -z e a opção do comando, e não o outro. "
     "A versão não é a do pacote.", "mac_roman", "mac_latin2"),
]  # fmt: skip


def test_latin_with_ligatures_is_not_taken_for_a_language_of_central_europe():
    # E6 is a letter of Croatian in cp1250.
    text = "Gallia est omnis divisa in partes tres. Hæ omnes linguâ et legibus inter se differunt. "
    text += "Apud eos prœlium non est, sed quæ cum Germanis gerunt, per Cæsarem ad nos ferunt. "
    assert decode((text * 10).encode("cp1252")) == (text * 10, "cp1252")


@pytest.mark.parametrize(("text", "codec", "wrong"), MISTAKEN)
def test_neighbours_are_not_mistaken(text, codec, wrong):
    raw = text.encode(codec)
    assert raw.decode(wrong, "replace") != text
    found = charsets.detect_encoding(raw)
    assert found is None or raw.decode(found) == text


@pytest.mark.parametrize(
    ("given", "codec"),
    [
        *(("utf-16", "utf-16"), ("utf-16le", "utf-16-le"), ("UTF_16BE", "utf-16-be")),
        *(("utf-32", "utf-32"), ("utf8", "utf-8"), ("latin1", "latin-1"), ("l1", "latin-1")),
        *(("macintosh", "mac-roman"), ("x-mac-cyrillic", "mac-cyrillic"), ("x-sjis", "cp932")),
        *(("windows-1252", "cp1252"), ("windows-874", "tis-620"), ("shift_jis", "cp932")),
        *(("ISO-2022-JP", "iso2022_jp"), ("cp850", "cp850"), ("ks_c_5601-1987", "euc-kr")),
    ],
)
def test_any_name_of_an_encoding_may_be_given(given, codec):
    language = "Japanese" if "sjis" in given or "jis" in given or "JP" in given else "English"
    text = SENTENCES[language].translate({0x201C: '"', 0x201D: '"', 0x2019: "'", 0x2014: "-"})
    charsets.check_encoding(given)
    assumed = Assumed(charsets.python_name(given), is_given=True)
    assert decode(text.encode(codec), assumed)[0] == text


def test_the_names_that_messages_show_may_be_given():
    known = {*charsets._ENCODINGS, *charsets._RIVALS, "mac_roman", "cp850", "utf-16-le"}
    for encoding in known:
        given = charsets.web_name(encoding)
        assert codecs.lookup(charsets.python_name(given)) == codecs.lookup(encoding), given


@pytest.mark.parametrize("given", ["", "klingon", "base64", "rot13", "a\0b", "é"])
def test_what_is_no_encoding_is_refused(given):
    with pytest.raises(InputError, match="^--encoding=.*: not known; name one"):
        charsets.check_encoding(given)


@exact
@given(st.text(st.characters(exclude_categories=["Cs"])))
@pytest.mark.parametrize(
    ("codec", "name"),
    [("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("utf-16", "utf-16"), ("utf-32", "utf-32")],
)
def test_unicode(codec, name, text):
    if not text.startswith("\ufeff"):
        assert decode(text.encode(codec)) == (text, name)


@pytest.mark.parametrize("mark", [b"\xfe\xff", b"\xff\xfe"])
def test_utf16_that_is_cut_off(mark):
    with pytest.raises(UnicodeDecodeError):
        decode(mark + b"\0a\0")


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("stray", [b"\xff", b"\xe9", b"\xc3", b"\x80"])
def test_a_stray_byte_in_utf8_is_damage(language, stray):
    if language == "English":
        pytest.skip("has nearly nothing beyond ASCII")
    data = (SENTENCES[language] * 5).encode()
    middle = len(data) // 2
    with pytest.raises(UnicodeDecodeError, match="utf-8"):
        decode(data[:middle] + b" " + stray + b" " + data[middle:])


@pytest.mark.parametrize("size", [64, 500, 4096])
def test_random_bytes_are_no_text(size):
    generator = random.Random(size)
    for _ in range(20):
        with pytest.raises(UnicodeDecodeError):
            decode(b"\xff" + generator.randbytes(size))


def test_real_files(shared_data):
    found = {}
    for path in sorted((shared_data / "gutenberg_mixed_encodings").iterdir()):
        _, encoding = decode(path.read_bytes())
        if encoding != "utf-8":
            found[path.name] = encoding
    assert found == {"chesterton-ball.txt": "cp1252", "shakespeare-caesar.txt": "cp1252"}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("language", PREAMBLES)
def test_wide_text_without_a_mark_is_never_read_as_another(language, encoding):
    """Where too little shows it, the text is rejected."""
    text = PREAMBLES[language]
    raw = text.encode(encoding)
    try:
        found = decode(raw)
    except UnicodeDecodeError:
        assert language in ("Chinese", "Japanese")
    else:
        assert found == (text, encoding)
    assert decode(text.encode()) == (text, "utf-8")


def test_zeros_of_a_damaged_text_show_no_encoding():
    text = "The river is long. " * 99
    for damaged in (text + "\0" * 500, text.replace(" ", "\0"), "\0" * 9 + text):
        assert decode(damaged.encode()) == (damaged, "utf-8")
