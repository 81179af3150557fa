"""Reads the texts of evaluation files, and finds the documents that share passages with them.

The rule is near that of GPT-3 (Brown et al. 2020, arXiv 2005.14165, appendix C): runs of 13 words,
in lower case and without punctuation. There a document is cut around them; here it is dropped,
since what is left of it has lost its neighbours, which pairs and packed text are made of. There
words are cut at white space ("it's" is one), and runs that more than 10 documents have are ignored
as common phrases. Here every run counts, as the documents are read once and each by itself.
"""

import dataclasses
import functools
import io
import json
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from beambert.compression import decompressed
from beambert.errors import InputError
from beambert.file_kinds import not_text
from beambert.io import read_chunks, sha256_of
from beambert.pipelines.corpus.encodings import WrongEncodingError, decode
from beambert.pipelines.input_files import match_inputs
from beambert.pipelines.tasks import tables, tagging
from beambert.pipelines.text.phrases import CHARACTERS_A_WORD, Match, Phrases

# Number of words in the runs, as in GPT-3's appendix C, which has 13 as its greatest number.
RUN_WORDS = 13
_COMPRESSED = re.compile(r"\.(?:gz|bz2|zst)$")


@dataclasses.dataclass(frozen=True)
class EvaluationTexts:
    """Evaluation files, which workers read for themselves.

    Attributes:
      paths: paths of the files.
      sha256: checksums of their bytes as they are stored.
    """

    paths: tuple[str, ...]
    sha256: tuple[str, ...]

    @classmethod
    def of(cls, patterns: Sequence[str]) -> "EvaluationTexts":
        """Lists the files that match patterns.

        Raises:
          InputError: a pattern matches nothing, or a file cannot be read.
        """
        paths = tuple(file.path for file in match_inputs(patterns, "--decontaminate"))
        texts = cls(paths, tuple(map(sha256_of, paths)))
        if not len(texts.phrases()):
            raise InputError(
                f"--decontaminate={patterns[0]}: no text has {RUN_WORDS} words (of scripts without "
                f"spaces, {RUN_WORDS * CHARACTERS_A_WORD} characters), so that nothing can be "
                "found; name the files that have the texts"
            )
        return texts

    def to_json(self) -> dict[str, Any]:
        """Returns what decides the documents that are dropped, for info.json."""
        rows = zip(self.paths, self.sha256, strict=True)
        return {"files": [{"path": path, "sha256": checksum} for path, checksum in rows]}

    def phrases(self) -> Phrases:
        """Returns the runs of words of all texts; their sources are the numbers of the paths.

        Raises:
          InputError: a file cannot be read, or was changed.
        """
        return _phrases(self)

    def find(self, texts: Sequence[str]) -> dict[int, Match]:
        """Returns the first run that each text shares, see `Phrases.find`."""
        return self.phrases().find(texts)


def overlap_row(path: str, text: str, match: Match, texts: EvaluationTexts) -> str:
    """Returns a dropped document as a line of the report, in JSON."""
    row = {
        "file": path,
        "document": " ".join(text[:200].split())[:80],
        "shared": " ".join(match.words.split()),
        "with": texts.paths[match.source],
    }
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


@functools.lru_cache(1)
def _phrases(texts: EvaluationTexts) -> Phrases:
    if tuple(map(sha256_of, texts.paths)) != texts.sha256:
        raise InputError(
            "--decontaminate: a file was changed while the job ran; wait until nothing writes to "
            "it, then give the command again"
        )
    found = (
        (number, text)
        for number, path in enumerate(texts.paths)
        for text in texts_of(
            path, decompressed(f"--decontaminate={path}", b"".join(read_chunks(path)))
        )
    )
    return Phrases.of_runs(found, RUN_WORDS)


def texts_of(path: str, content: bytes) -> Iterator[str]:
    """Yields the texts of an evaluation file.

    These are all strings of JSON and JSON Lines, all fields of .tsv and .csv, the sentences of
    .conll and .conllu, and any other file as a whole.

    Args:
      path: path of the file, whose ending tells what it is.
      content: its bytes, decompressed.

    Raises:
      InputError: it is no text, or not what its ending says.
    """
    name = pathlib.PurePath(_COMPRESSED.sub("", path))
    try:
        if name.suffix == ".parquet":
            yield from _parquet_texts(content)
        elif name.suffix == ".json":
            yield from _strings(json.loads(_text_of(path, content)))
        elif name.suffix == ".jsonl":
            for _, line in tables.lines(_text_of(path, content)):
                if line.strip():
                    yield from _strings(json.loads(line))
        elif name.suffix == ".csv":
            for _, row in tables.comma_separated(name, _text_of(path, content)):
                yield from row
        elif name.suffix == ".tsv":
            # Quotes are literal, as in GLUE's files.
            for _, line in tables.lines(_text_of(path, content)):
                yield from line.split("\t")
        elif name.suffix in tagging.WORDS_ENDINGS:
            yield from tagging.running_texts(name, _text_of(path, content))
        else:
            yield _text_of(path, content)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"--decontaminate: {path} cannot be read as its ending says ({error}); fix or rename it"
        ) from error


def _text_of(path: str, content: bytes) -> str:
    """Returns a file's content as text; the corpus's --encoding says nothing about these files."""
    if problem := not_text(content):
        raise InputError(f"--decontaminate: {path}: {problem}")
    try:
        return decode(content)[0]
    except WrongEncodingError as error:
        problem, _, _ = str(error).partition("; ")
        raise InputError(f"--decontaminate: {path}: {problem}; convert it to UTF-8") from error


def _strings(value: Any) -> Iterator[str]:
    """Yields all strings in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


def _parquet_texts(content: bytes) -> Iterator[str]:
    import pyarrow
    import pyarrow.parquet

    try:
        for batch in pyarrow.parquet.ParquetFile(io.BytesIO(content)).iter_batches():
            yield from _strings([list(row.values()) for row in batch.to_pylist()])
    except (pyarrow.ArrowException, OSError) as error:  # the latter by a damaged page
        raise ValueError(str(error)) from error
