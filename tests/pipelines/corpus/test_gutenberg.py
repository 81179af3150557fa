"""Project Gutenberg's marks, in the wordings of its files."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.corpus.encodings import decode
from beambert.pipelines.corpus.text_files import PlainText, strip_gutenberg

exact = settings(derandomize=True, max_examples=100, deadline=None, database=None)
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


def test_credits_before_an_end_are_the_books_own():
    """Only after the start do credits stand before a book; a file may lack that."""
    file = "Produced by hand\n\nText.\nEnd of Project Gutenberg's Emma\n"
    assert strip_gutenberg(file).startswith("Produced by hand")


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
            with path.open("rb") as file:
                (document,) = PlainText().read_lines(file)
            assert document.text
            assert "gutenberg" not in document.text.lower()
