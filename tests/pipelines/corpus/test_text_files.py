"""Plain text: Project Gutenberg's marks in the wordings of its files, and hard-wrapped lines."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.corpus import cleaning
from beambert.pipelines.corpus.cleaning import clean_text
from beambert.pipelines.corpus.encodings import decode

exact = settings(derandomize=True, max_examples=100, deadline=None, database=None)


def strip_gutenberg(text: str) -> str:
    return cleaning.strip_gutenberg(text, Counter())


def unwrap(text: str) -> str:
    return cleaning.join_lines(text, Counter())


BOOK = "CHAPTER I\n\nIt was so.\n"


@pytest.mark.parametrize(
    "header",
    [
        "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***\n",
        "*** START OF THIS PROJECT GUTENBERG EBOOK EMMA, VOL. 2 ***\n\n\nProduced by A. Reader\n",
        "***START OF THE PROJECT GUTENBERG EBOOK EMMA***\n\n\nE-text prepared by A. Volunteer\n"
        "and the Online Team (https://www.pgdp.net)\n\n\n[Transcriber's Note: _so_ is italic.\n"
        "\nAll else is as printed.]\n",
        "*** START OF THE PROJECT GUTENBERG EBOOK A LONG\nTITLE OF A BOOK ***\n",
        "***START**THE SMALL PRINT!**FOR PUBLIC DOMAIN ETEXTS**START***\nWhy is it here?\n"
        "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\n\n\n"
        "This etext was prepared by A. Volunteer, Town\n",
        "*END THE SMALL PRINT! FOR PUBLIC DOMAIN EBOOKS*Ver.02/11/02*END*\n",
    ],
)
@pytest.mark.parametrize(
    "footer",
    [
        "*** END OF THE PROJECT GUTENBERG EBOOK EMMA ***\n",
        "End of Project Gutenberg's Emma, by Jane Austen\n\n"
        "*** END OF THIS PROJECT GUTENBERG EBOOK EMMA ***\n",
        "***END OF THE PROJECT GUTENBERG EBOOK EMMA***\n",
        "End of the Project Gutenberg EBook of Emma, by Jane Austen\n",
        "End of The Project Gutenberg Etext of Emma\n",
        "End of this Project Gutenberg etext of Emma\n",
        "This is the end of the Project Gutenberg eBook of Emma\n",
        "End of Project Gutenberg’s Emma, by Jane Austen\n\n*** END OF THE PROJECT GUTENBERG EBOOK "
        "EMMA ***\n**The Legal Small Print**\nWhy?\n"
        "*END THE SMALL PRINT! FOR PUBLIC DOMAIN EBOOKS*Ver.02/11/02*END*\n",
    ],
)
def test_the_book_alone_is_left(header, footer):
    top = "The Project Gutenberg eBook of Emma\n\nThis eBook is for the use of anyone.\n\n"
    file = f"{top}{header}\n\n{BOOK}\n\n{footer}"
    if "Legal" not in footer:
        file += "Updated editions will replace this.\n"
    assert strip_gutenberg(file).strip() == BOOK.strip()


def test_several_books_in_a_file():
    mark = "*** {} OF THE PROJECT GUTENBERG EBOOK X ***"
    marks = f"{mark.format('START')}\n{{}}\n{mark.format('END')}"
    file = "Header\n" + "\nLicence\n".join(marks.format(book) for book in ("One.", "Two."))
    assert strip_gutenberg(file).split() == ["One.", "Two."]


@pytest.mark.parametrize(("length", "is_kept"), [(40_000, False), (40_001, True)])
def test_a_licence_has_40_000_characters_at_most(length, is_kept):
    """What follows the end is a licence, unless it is too long for one."""
    after = "\n" + "x" * (length - 1)
    found = strip_gutenberg(f"Book.\n*** END OF THE PROJECT GUTENBERG EBOOK X ***{after}")
    assert (after in found) is is_kept


@pytest.mark.parametrize(
    "text",
    [
        "Produced by hand.\n\nThe Project Gutenberg is a library.\n\nThe end of the project.\n",
        "He spoke of the end of Project Gutenberg's money.\n",
        "[Transcriber's note: none]\n\nText\n",
        "*** START ***\nText\n*** END ***\n",
        "",
    ],
)
def test_other_text_passes(text):
    assert strip_gutenberg(text) == text


@exact
@given(st.text(alphabet="ab*E\n\r .ND", max_size=200))
def test_any_other_text_passes(text):
    assert strip_gutenberg(text) == text


@pytest.mark.slow
def test_real_files(shared_data):
    """Of all the books one has such a mark, at its end."""
    for folder in ("gutenberg_mixed_encodings", "novels"):
        for path in sorted((shared_data / folder).iterdir()):
            text, _ = decode(path.read_bytes(), ("utf-8", "cp1252"))
            text = "\n".join(text.splitlines())
            stripped = strip_gutenberg(text)
            if path.name == "chesterton-ball.txt":
                assert text.startswith(stripped)
                assert stripped.rstrip().endswith("fallen haphazard in the\npattern of a cross.")
            else:
                assert stripped is text
            cleaned, _ = clean_text(text)
            assert cleaned and "gutenberg" not in cleaned.lower()


def visible(text: str) -> str:
    return "".join(text.split())


@exact
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_nothing_is_lost(text):
    assert visible(unwrap(text)) == visible(text)


def test_lines_without_blank_ones_are_paragraphs():
    assert unwrap("One\n  Two \nThree") == "One\nTwo\nThree"


def test_verse_without_blank_lines_stays_as_it_is():
    verse = "Of Man's first disobedience, and the fruit\nOf that forbidden tree\nBrought death"
    assert unwrap(verse) == verse


@pytest.mark.parametrize("end", ["\r\n", "\r\r\n", "\r", "\x0b", "\u2028"])
def test_line_ends(end):
    assert clean_text("A\nb\n\nc\n".replace("\n", end))[0] == "A b\nc"


def test_indented_first_lines_start_paragraphs():
    text = (
        "   It was a long line that had to be wrapped\nonce. And another that ends just here now.\n"
        "   The second paragraph begins with an indent\nand goes on.\n\nA third.\n"
    )
    assert [line[:8] for line in unwrap(text).split("\n")] == ["It was a", "The seco", "A third."]


def test_words_with_a_hyphen_at_the_end_of_a_line():
    text = "He was a well-\nknown man--\nand old.\n\nEnd."
    assert unwrap(text) == "He was a well-known man-- and old.\nEnd."


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n", "\f\f", "."])
def test_nothing_to_join(text):
    assert clean_text(text)[0] == text.strip()


@pytest.mark.slow
def test_real_books_are_not_cut_within_sentences(shared_data):
    """Of the wrapped books, with and without blank lines, next to no line starts in lower case."""
    started, lines = 0, 0
    for folder in ("gutenberg_mixed_encodings", "novels"):
        for path in sorted((shared_data / folder).iterdir()):
            raw = "\n".join(decode(path.read_bytes(), ("utf-8", "cp1252"))[0].splitlines())
            if max(map(len, raw.split("\n"))) > 200:
                continue
            found = unwrap(raw).split("\n")
            started += sum(line[:1].islower() for line in found)
            lines += len(found)
            assert len(found) > 200, path.name
    assert lines > 90_000
    assert started < 0.0015 * lines
