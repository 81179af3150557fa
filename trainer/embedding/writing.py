"""Embeds the texts of files into a folder of Parquet files, and continues where it was killed."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beambert import folders, storage
from beambert.errors import InputError
from beambert.trainer.embedding.embedder import Embedder, Report, no_report
from beambert.trainer.embedding.finished_folders import EMBEDDING, INFO_FILE, PART, read_part
from beambert.trainer.embedding.text_files import TextReading, TextRow, read_texts

# Number of texts in a file. A command that is killed loses the work on one file at most.
PART_TEXTS = 8192
# The flags behind the values that decide the embeddings.
FLAGS_OF = (
    {
        "model_sha256": "--model",
        "settings.pooling.mode": "--pooling",
        "settings.pooling.last_layers": "--last_layers",
        "settings.pooling.is_normalized": "--normalize",
        "settings.prefix": "--prefix",
        "settings.max_seq_length": "--max_seq_length",
        "reading.text_column": "--text_column",
        "reading.id_column": "--id_column",
        "reading.title_column": "--title_column",
        "reading.encoding": "--encoding",
        "reading.unit": "--unit",
        "reading.passage_words": "--passage_words",
        "keeps_text": "--keep_text",
        "input": "--input",
    },
)


@dataclasses.dataclass(frozen=True)
class Embedded:
    """What a folder of embeddings has.

    Attributes:
      texts: number of texts.
      cut: number of texts that were longer than the model reads, and were cut.
      width: number of components of an embedding.
      max_seq_length: greatest number of tokens of a text, with [CLS] and [SEP].
      was_done: whether the same command had finished it before.
    """

    texts: int
    cut: int
    width: int
    max_seq_length: int
    was_done: bool = False


@dataclasses.dataclass(frozen=True)
class Work:
    """The texts of files, and the folder that gets their embeddings.

    Attributes:
      paths: paths of the files, as they were given.
      output: folder of the Parquet files.
      reading: how the files are read.
      keeps_text: whether the texts are written, too.
      part_texts: number of texts in a Parquet file.
      home: folder that relative paths of the files begin in; "" for the current one.
    """

    paths: tuple[str, ...]
    output: str
    reading: TextReading
    keeps_text: bool = True
    part_texts: int = PART_TEXTS
    home: str = ""

    def count(self, number: int) -> int:
        """Returns the number of texts of a file, after a look at each of them.

        Args:
          number: number of the file among `paths`.

        Raises:
          InputError: the file or a row of it cannot be used.
        """
        return sum(1 for _ in read_texts([self.paths[number]], self.reading, self.home))

    def parts(self, counts: Sequence[int]) -> range:
        """Returns the numbers of the parts that texts make; `counts` has those of each file.

        Raises:
          InputError: there is no text.
        """
        if not sum(counts):
            raise InputError(f"--input={' '.join(self.paths)}: has no text; put one on each line")
        return range(-(-sum(counts) // self.part_texts))

    def rows_from(self, first: int, counts: Sequence[int]) -> Iterator[TextRow]:
        """Yields the texts of all files from one on, which is counted from 0."""
        number = 0
        while first >= counts[number]:
            first -= counts[number]
            number += 1
        rows = read_texts(self.paths[number:], self.reading, self.home)
        return itertools.islice(rows, first, None)


# Type of a function that writes the parts of a work that are missing, and returns the numbers of
# texts and of those that were cut.
Write = Callable[[Work], tuple[int, int]]


def embed_files(
    embedder: Embedder,
    paths: Sequence[str],
    output: str,
    reading: TextReading,
    keeps_text: bool = True,
    report: Report = no_report,
) -> Embedded:
    """Writes the embeddings of the texts of files, in their order, in this process.

    Each file `part-*.parquet` has the columns `file`, `line`, `start`, `id` if there are
    identifiers, `text` if it is kept, and `embedding`, a list of fixed size of float32.

    Args:
      embedder: the encoder and its pooling.
      paths: paths of the files.
      output: folder to make.
      reading: how the files are read.
      keeps_text: whether the texts are written, too.
      report: called after each batch with the numbers of texts that are done and in all.

    Raises:
      InputError: a file cannot be used, or the folder holds something else.
    """

    def write(work: Work) -> tuple[int, int]:
        # Every row is read once before the first is embedded, so that a bad one costs no work.
        counts = [work.count(number) for number in range(len(work.paths))]
        return sum(counts), write_parts(embedder, work, counts, work.parts(counts), report)

    work = Work(tuple(paths), output.rstrip("/"), reading, keeps_text, PART_TEXTS)
    return fill_folder(embedder, work, write)


def fill_folder(embedder: Embedder, work: Work, write: Write) -> Embedded:
    """Claims a folder, lets its parts be written and finishes it.

    Raises:
      InputError: a file cannot be used, or the folder holds something else.
    """
    width, longest = embedder.width, embedder.settings.max_seq_length
    identity = identity_of(embedder, work)
    with folders.claimed(work.output, identity, FLAGS_OF) as folder:
        if folder.is_finished:
            info = folder.read_json(INFO_FILE)
            return Embedded(info["texts"], info["cut"], width, longest, was_done=True)
        texts, cut = write(work)
        folder.write_json(INFO_FILE, {"texts": texts, "cut": cut, "width": width} | identity)
    return Embedded(texts, cut, width, longest)


def identity_of(embedder: Embedder, work: Work) -> dict[str, Any]:
    """Returns everything that decides the embeddings, for the marker of the folder."""
    settings = dataclasses.asdict(embedder.settings)
    del settings["encoder"]  # The hash of the weights stands for it, wherever the folder lies.
    return {
        "model_sha256": embedder.sha256,
        "tokenizer_sha256": embedder.vocabulary.sha256,
        "settings": settings,
        "reading": dataclasses.asdict(work.reading),
        "keeps_text": work.keeps_text,
        "input": [{"path": path, "sha256": storage.sha256_of(path)} for path in work.paths],
    }


def write_parts(
    embedder: Embedder, work: Work, counts: Sequence[int], numbers: range, report: Report
) -> int:
    """Writes the files of consecutive parts that are missing.

    The batches of a part have texts of that part alone, so that its file is the same wherever and
    beside whatever it is made.

    Args:
      embedder: the encoder and its pooling.
      work: the texts and the folder.
      counts: number of texts of each file.
      numbers: numbers of the parts.
      report: called after each batch with the numbers of texts that are done and in all.

    Returns:
      The number of texts of these parts that were cut.
    """
    cut, done = 0, 0
    rows = work.rows_from(numbers.start * work.part_texts, counts)
    total = min(sum(counts), numbers.stop * work.part_texts) - numbers.start * work.part_texts
    for number in numbers:
        part = list(itertools.islice(rows, work.part_texts))
        path = f"{work.output}/{PART.format(number)}"
        if storage.exists(path):
            cut += int((read_part(path).schema.metadata or {}).get(b"cut", 0))
        else:
            texts = [row.text for row in part]
            vectors, cut_here = embedder.embed(texts, _further(report, done, total))
            has_ids = bool(work.reading.id_column)
            table = table_of(part, vectors, has_ids, work.keeps_text)
            table = table.replace_schema_metadata({"cut": str(cut_here)})
            content = pa.BufferOutputStream()
            pq.write_table(table, content, use_dictionary=["file"], compression="zstd")
            storage.write_bytes(path, content.getvalue().to_pybytes())
            cut += cut_here
        done += len(part)
    return cut


def _further(report: Report, before: int, total: int) -> Callable[[int, int], None]:
    """Returns a report about a part of the texts, of which some were done before."""
    return lambda done, _: report(before + done, total)


def table_of(
    rows: Sequence[TextRow], vectors: np.ndarray, has_ids: bool, keeps_text: bool
) -> pa.Table:
    """Returns the table of texts and their embeddings, float32 [texts, H]."""
    columns: dict[str, Any] = {
        "file": [row.file for row in rows],
        "line": pa.array([row.line for row in rows], pa.int64()),
        "start": pa.array([row.start for row in rows], pa.int64()),
    }
    if has_ids:
        columns["id"] = [row.id for row in rows]
    if keeps_text:
        columns["text"] = [row.text for row in rows]
    columns[EMBEDDING] = pa.FixedSizeListArray.from_arrays(
        pa.array(vectors.reshape(-1)), vectors.shape[1]
    )
    return pa.table(columns)
