"""Sentence splitting: cases that a reader can judge, no character missing, divided words."""

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.corpus.documents import Document
from beambert.pipelines.text.cleaning import normalize_text
from beambert.pipelines.text.sentences import divided_word_notes, find_unspaced, split_sentences

CASES = [
    ("Hello World. My name is Jonas.", ["Hello World.", "My name is Jonas."]),
    ("What is your name? My name is Jonas.", ["What is your name?", "My name is Jonas."]),
    ("There it is! I found it.", ["There it is!", "I found it."]),
    ("My name is Jonas E. Smith.", ["My name is Jonas E. Smith."]),
    ("Please turn to p. 55.", ["Please turn to p. 55."]),
    ("She has $100.00 in her bag.", ["She has $100.00 in her bag."]),
    ("He met Mr. Smith. They talked.", ["He met Mr. Smith.", "They talked."]),
    # A paragraph ends a sentence, whatever it ends with; white space around it goes.
    ("A heading\nThe text.", ["A heading", "The text."]),
    ("  One.  \n\n\n \t\nTwo.  ", ["One.", "Two."]),
    ("", []),
    (" \n\t\n ", []),
]


# Language -> texts whose sentences "|" separates.
OF_LANGUAGES = [
    ("de", "Im 19. Jahrhundert lebte er hier."),
    ("de", "Die 2. Auflage erschien 1990. |Der 5. Präsident kam am 3. Mai."),
    ("de", "Er war der 5. |Dann kam sie."),
    ("lb", "Den 2. Weltkrich war eriwwer."),
    ("en", "Smith et al. [12] propose a method. |Following Smith et al. [12], we use a tree."),
    ("en", "See Fig. [3] and Eq. (3) for it. |Figs. 3 and 4 show it."),
    ("en", "He left.[3] |She stayed."),
    ("en", "He went home. [12] |The dog barked."),
    ("en", "J.-P. Sartre and J. Smith wrote it. |So said I. |They agreed."),
    ("en", 'He came. |"It is late," said Mr. Jones. |"Is it?" she asked.'),
    ("en", "It was so. |2. The second item. |3. The third."),
    ("en", "it was so. |they left. |was it?"),
    ("fr", "Elle naît en 50 av. J.-C. à Rome. |M. Dupont arrive. |« Bonjour ! » dit-il."),
    ("it", "Nacque nel 50 a.C. a Roma. |È vero."),
    ("en", "They lost (P<.01). |Fifteen were right (all of them). |So 5 << 42 (as it is)."),
    ("de", "Das Gesetz (BGBl. I S. 32, ABl. L 5) gilt. |Es bleibt."),
    ("de", '"Nun denn, weiter."|--"Ein Mann kam."'),
    ("pl", "Wtedy ks. Butkiewicz i hr. Potocki, a p. Nowak wyszedł. |Potem pp. Kowalscy."),
    ("pl", "W 1990 r. powstała firma. |Kościół św. Wojciecha, ul. Długa. |Ma ok. 80 lat."),
    ("tr", "19. yüzyılda yapıldı. |Öğretmen geldi."),
    ("hu", "1990. május 3-án született. |A Kft.-nek nem."),
    ("nl", "Hij woont o.a. in Den Haag. |Zij ook."),
    ("et", "Näitus avatakse 16. oktoobril. |Öösel sajab."),
    ("hr", "Otvoren je 3. siječnja. |Šetali su."),
    ("lv", "Notika 1919. gada 5. martā. |Ēka stāv."),
    ("sv", "Bl.a. åldern avgjorde. |Åke gick."),
    ("el", "Απέχει 22 χλμ. από τη Δράμα. |Έτσι είναι."),
    ("ru", "Книги и др. литературу. |Он пришёл."),
    ("my", "သူ၊ သွားသည်။ |သူမ နေသည်။"),
]


@pytest.mark.parametrize(("language", "marked"), OF_LANGUAGES)
def test_ends_of_sentences_in_languages(language, marked):
    text = marked.replace("|", "")
    assert split_sentences(Document(text), language) == [s.strip() for s in marked.split("|")]


@pytest.mark.parametrize(("text", "sentences"), CASES)
def test_cases(text, sentences):
    assert split_sentences(Document(text)) == sentences


def test_lines_of_split_documents_are_kept_as_they_are():
    document = Document("Mr. A. said: No. Yes.\r\n\n  no full stop \n", is_split=True)
    assert split_sentences(document) == ["Mr. A. said: No. Yes.", "no full stop"]


def test_other_languages():
    document = Document("これは文です。次の文です。")
    assert split_sentences(document, "ja") == ["これは文です。", "次の文です。"]
    assert split_sentences(Document("Das ist gut. Das auch."), "no such language")


@settings(derandomize=True, max_examples=60, deadline=None, database=None)
@given(
    st.text(
        st.sampled_from("aB. !?…\"'”()0\n\r\t\u00a0\u2028。é😀\u200d")
        | st.characters(exclude_categories=["Cs"]),
        max_size=80,
    ),
    st.booleans(),
)
def test_nothing_but_white_space_is_lost(text, is_split):
    sentences = split_sentences(Document(text, is_split))
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() and sentence for sentence in sentences)


LICENCE = "Copyright (C) 2007 A. " + "You may copy it. " * 99 + "Copyright (C) 2008 B. It ends."
SPEECH = 'He said: "' + "I have come. " * 99 + 'So it is." Then he left.'


@pytest.mark.parametrize(
    ("text", "first", "often", "last"),
    [
        (LICENCE, "Copyright (C) 2007 A.", "You may copy it.", "It ends."),
        (SPEECH, 'He said: "I have come.', "I have come.", "Then he left."),
        (SPEECH.replace('"', "'"), "He said: 'I have come.", "I have come.", "Then he left."),
        (
            "（" + "这句话在这里结束了。" * 99 + "）",
            "（这句话在这里结束了。",
            "这句话在这里结束了。",
            "）",
        ),
    ],
)
def test_what_stands_between_two_marks_is_no_sentence_of_any_length(text, first, often, last):
    sentences = split_sentences(Document(text))
    assert sentences.count(often) >= 97
    assert " ".join(sentences).startswith(first) and sentences[-1].endswith(last)


SMALL = {"WINDOW": 200, "LONGEST_PARAGRAPH": 60}
words = st.text("abné\U0001f600", min_size=1, max_size=5)


@settings(derandomize=True, max_examples=50, deadline=None, database=None)
@given(
    st.lists(st.tuples(words, st.sampled_from(["", ".", "!", "?", "…"])), max_size=120),
    st.sampled_from([" ", "  ", "\u00a0", " \n"]),
    st.booleans(),
)
def test_words_of_long_paragraphs(pieces, space, is_split):
    """Cut or not, in windows or not: the words of the sentences are those of the text, in order."""
    text = space.join(word + mark for word, mark in pieces)
    with mock.patch.multiple("beambert.pipelines.text.sentences", **SMALL):
        sentences = split_sentences(Document(text, is_split))
    if space == "\u00a0":  # a paragraph without a space or full stop is cut anywhere
        assert "".join("".join(sentences).split()) == "".join(text.split())
    else:
        assert [word for sentence in sentences for word in sentence.split()] == text.split()
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)
    assert all(len(sentence) <= SMALL["LONGEST_PARAGRAPH"] for sentence in sentences)


def test_long_paragraphs_are_cut_at_sentences():
    """Where a full stop is near the greatest length, no sentence is torn."""
    sentences = [f"{word} five six." for word in ("One", "Two", "Three", "Four") for _ in range(30)]
    with mock.patch.multiple(
        "beambert.pipelines.text.sentences", WINDOW=2000, LONGEST_PARAGRAPH=400
    ):
        found = split_sentences(Document(" ".join(sentences)))
    assert found == sentences


def test_an_open_quotation_costs_no_time():
    """Its end is looked for in a paragraph: the square of its length, were long ones not cut."""
    text = '"No end. ' * 60_000
    assert len(split_sentences(Document(text))) > 5


@pytest.mark.parametrize("language", ["en", "ja"])
def test_windows_change_nothing(language):
    """Short paragraphs give the same sentences whether split together or apart."""
    text = "\n".join(["Mr. A. went. He said so.", "これは文です。次。", "यह है। और यह।"] * 40)
    whole = split_sentences(Document(text), language)
    with mock.patch.multiple("beambert.pipelines.text.sentences", WINDOW=1):
        assert split_sentences(Document(text), language) == whole


@pytest.mark.parametrize(
    ("text", "language", "unspaced"),
    [
        ("One. Two.\n\nThree.", "en", ()),
        ("これは文です。次の文です。\n新しい段落。 空白の後。", "ja", (1,)),
        ("\n第一句。第二句！第三句？", "zh", (1, 2)),
        ("A. A. A. See it.A. A.", "en", None),
    ],
)
def test_where_no_space_stands(text, language, unspaced):
    """The sentences and the spaces between them are the text."""
    sentences = split_sentences(Document(text), language)
    found = find_unspaced(text, sentences)
    if unspaced is not None:
        assert found == unspaced
    assert joined(sentences, found) == " ".join(text.split())


def test_no_character_of_real_text_is_lost(shared_data):
    """White space at the ends of sentences, and nothing else, is what the splitter takes away."""
    ends = 0
    for path in ("novels/Doyle_Hound_1902.txt", "wiki_extracted/wiki_07"):
        text = normalize_text((shared_data / path).read_text("utf-8")[:400_000])
        sentences = split_sentences(Document(text))
        found = find_unspaced(text, sentences)
        assert joined(sentences, found) == " ".join(text.split())
        ends += len(found)
    assert ends > 3


def test_a_long_paragraph_is_cut_where_no_space_stands():
    text = "これは長い段落です。" * 50 + "終わり"
    with mock.patch.multiple("beambert.pipelines.text.sentences", **SMALL):
        sentences = split_sentences(Document(text), "ja")
    assert find_unspaced(text, sentences) == tuple(range(1, len(sentences)))


def joined(sentences, unspaced) -> str:
    """The text that the sentences and the spaces between them tell of."""
    return "".join(
        text if number == 0 or number in unspaced else f" {text}"
        for number, text in enumerate(sentences)
    )


def notes(texts: list[str]) -> list[str]:
    return divided_word_notes(map(Document, texts))


SCANNED = "The ship came to the moun-\ntains of ice, and its cap-\ntain stood on the deck.\n"


def test_divided_words_are_told_with_an_example():
    (note,) = notes([SCANNED, SCANNED.replace("\n", " "), SCANNED])
    assert "divide 6 words" in note and "“moun- tains”" in note and "perl" in note
    (note,) = notes([SCANNED.replace("\n", " ")] * 3)
    assert "perl" not in note  # It joins lines.


@pytest.mark.parametrize(
    "text",
    [
        "a two- or three-year plan, the pre- and post-war years, ein Haupt- und Nebensatz; ",
        "a well-known man -\nas he said -- went 5-\nfold; ",
        "the well- @-@ known man; ",
        "South-\nAfrica and North-\nAmerica; ",
    ],
)
def test_other_hyphens_are_not(text):
    assert notes([text] * 20) == []


def test_a_few_among_many_words_are_not():
    assert notes(["The ship left. " * 5000 + SCANNED * 3]) == []
    assert notes([]) == notes([""]) == []
