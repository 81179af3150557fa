"""Reads what a vocabulary job extends: the old vocabulary, and a list of pieces if there is one."""

from apache_beam.io.filesystems import FileSystems

from beambert.errors import InputError
from beambert.loading import loading
from beambert.pipelines.files.beam_files import read_bytes
from beambert.pipelines.tokenizers.folders import read_folder
from beambert.pipelines.tokenizers.vocabulary import (
    CONTINUES,
    VOCABULARY_FILE,
    TokenizerVocabulary,
    Vocabulary,
)
from beambert.pipelines.vocabulary_learning.extension import Extension
from beambert.pipelines.vocabulary_learning.job import VocabularyJob


def read_extension(job: VocabularyJob) -> Extension | None:
    """Returns what a job extends; None if it learns a vocabulary of its own.

    Raises:
      InputError: the vocabulary or the list of pieces cannot be read or used.
    """
    if job.extend is None:
        return None
    vocabulary = _read_old(job.extend.rstrip("/"))
    vocabulary.check_case(job.lower_cases)
    if job.add_pieces is None:
        return Extension(vocabulary, job.add)
    return Extension(vocabulary, given=_read_pieces(job.add_pieces, vocabulary, job.lower_cases))


def _read_old(path: str) -> Vocabulary:
    flag = "--extend"
    if path.endswith(".txt"):
        return Vocabulary.parse(read_bytes(path, flag), f"{flag}={path}")
    if not FileSystems.exists(path):
        raise InputError(
            f"{flag}={path}: no such file or folder; name a {VOCABULARY_FILE}, or the folder of a "
            "model that has one"
        )
    vocabulary, _ = read_folder(path, flag, read_bytes, FileSystems.exists)
    if isinstance(vocabulary, TokenizerVocabulary):
        raise InputError(
            f"{flag}={path}: is another kind of tokenizer than BERT's word pieces, which alone can "
            "be extended; learn a new one with --kind"
        )
    return vocabulary


def _read_pieces(path: str, vocabulary: Vocabulary, lower_cases: bool) -> tuple[str, ...]:
    """Returns the pieces of a list, after checking that text can be cut to each of them.

    Raises:
      InputError: a piece is there already, or no text is cut to it.
    """
    with loading():
        from beambert.pipelines.tokenizers.wordpiece import word_splitter

    split = word_splitter(lower_cases)
    try:
        lines = read_bytes(path, "--add_pieces").decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"--add_pieces={path}: is not UTF-8 text; convert it") from error
    known, found = set(vocabulary.tokens), []
    for number, piece in enumerate((line.strip() for line in lines), 1):
        if not piece:
            continue
        place = f"line {number}, {piece!r},"
        if piece in known:
            raise InputError(f"--add_pieces={path}: {place} is a piece already; remove the line")
        word = piece.removeprefix(CONTINUES)
        if not word or split([word]) != [word.encode()]:
            raise InputError(
                f"--add_pieces={path}: {place} cannot be reached, since text is "
                f"{'lower-cased and ' * lower_cases}cut at spaces and punctuation; write one word "
                "as it is then"
            )
        known.add(piece)
        found.append(piece)
    if not found:
        raise InputError(f"--add_pieces={path}: has no pieces; write one a line")
    return tuple(found)
