"""Folders of embeddings: the input files, the Parquet files, continuing."""

import dataclasses
import hashlib
import itertools
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beambert import folders, io
from beambert.console import counted, further, show_progress
from beambert.errors import InputError
from beambert.folders import MARKER_FILE
from beambert.pipelines.tasks.tables import BadRow, decode, lines, rows_of

if TYPE_CHECKING:
    from beambert.embedding import EmbeddingJob

# Endings of the files that are tables; all others have a text on each line.
TABLES = (".csv", ".tsv", ".jsonl")
LINE, FILE = "line", "file"


@dataclasses.dataclass(frozen=True)
class TextRow:
    """A text of a file.

    Attributes:
      file: path of the file.
      line: its line, counted from 1; in a table the one on which its row begins.
      id: its identifier; "" without a column of identifiers.
      start: first character of the passage in its text, counted from 0.
      text: the text, or a passage of it.
    """

    file: str
    line: int
    id: str
    start: int
    text: str


# The settings of an `EmbeddingJob` that say how files are read.
READING = (*("text_column", "id_column", "title_column", "encoding", "unit", "passage_words"),)


def read_texts(
    paths: Sequence[str], job: "EmbeddingJob", sums: dict[str, str]
) -> Iterator[TextRow]:
    """Yields the texts of files in their order, or their passages.

    Blank lines of text files are no texts.

    Args:
      paths: paths of the files.
      job: how they are read.
      sums: path -> SHA-256 of the file that is read; that of a file that is missing is added.

    Raises:
      InputError: a file cannot be read or has another checksum, a table lacks a column, or a text
        in it is blank.
    """
    for path in paths:
        # One file is here at a time, however many there are on gs://.
        with io.local_copy(path) as here:
            content = io.read_bytes(here, most=None)
            sha256 = hashlib.sha256(content).hexdigest()
            if sums.setdefault(path, sha256) != sha256:
                raise InputError(
                    f"{path}: was changed while it was read; give the command again when the file "
                    "is complete"
                )
            file = pathlib.Path(here)
            text = decode(file, content, job.encoding)
            for row in (_rows_of if path.endswith(TABLES) else _texts_of)(file, text, job):
                for start, passage in passages(row.text, job.passage_words):
                    yield dataclasses.replace(row, file=path, start=start, text=passage)


def _texts_of(path: pathlib.Path, content: str, job: "EmbeddingJob") -> Iterator[TextRow]:
    """Yields the texts of a file that is not a table."""
    for number, line in lines(content) if job.unit == LINE else [(1, content)]:
        if text := line.rstrip() if job.unit == FILE else line.strip():
            yield TextRow("", number, "", 0, text)


def _rows_of(file: pathlib.Path, content: str, job: "EmbeddingJob") -> Iterator[TextRow]:
    """Yields the texts of a table, behind their titles; one of both may be empty."""
    named = ("text_column", "id_column", "title_column")
    columns = [(flag, column) for flag in named if (column := getattr(job, flag))]
    for number, row in rows_of(file, content):
        if isinstance(row, BadRow):
            raise row
        for flag, column in columns:
            if column not in row:
                raise InputError(
                    f"--{flag}={column}: {file}, line {number:,}, has no such column (it has "
                    f"{', '.join(row) or 'none'}); name one of its columns"
                )
        names = filter(None, (job.title_column, job.text_column))
        parts = [row.filled(name) for name in names if row[name].strip()]
        text = " ".join(parts) or row.filled(job.text_column)
        id = row.filled(job.id_column) if job.id_column else ""
        yield TextRow("", number, id, 0, text)


def passages(text: str, most_words: int) -> Iterator[tuple[int, str]]:
    """Yields the passages of a text, each with its first character, counted from 0.

    Args:
      text: the text.
      most_words: greatest number of words, parts between white space; 0 for one passage.
    """
    if not most_words:
        yield 0, text
        return
    words = list(re.finditer(r"\S+", text))
    # Equal parts are better than full ones and a rest of one word.
    count = -(-len(words) // most_words)
    for number in range(count):
        part = words[number * len(words) // count : (number + 1) * len(words) // count]
        yield part[0].start(), text[part[0].start() : part[-1].end()]


# Readers of Parquet folders pass over names that begin with "_".
INFO_FILE = "_info.json"
# The column of the embeddings.
EMBEDDING = "embedding"
# What the file of a part is called.
PART = "part-{:05d}.parquet"


@dataclasses.dataclass(frozen=True)
class EmbeddingsFolder:
    """A finished folder of embeddings.

    Attributes:
      path: path of the folder.
      name: the folder as messages name it.
      info: content of its `_info.json`.
    """

    path: str
    name: str
    info: dict[str, Any]

    def parts(self) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """Yields the rows of each file but for their embeddings; and these, float32 [rows, H].

        Raises:
          InputError: a file cannot be read, or there are other embeddings than `_info.json` says.
        """
        count, width, number, sums = 0, self.info["width"], 0, iter(self.info["sha256"])
        while count < self.info["texts"]:
            path = f"{self.path}/{PART.format(number)}"
            content = io.read_bytes(path, most=None)
            if hashlib.sha256(content).hexdigest() != next(sums, ""):
                raise InputError(
                    f"{path}: cannot be read (it was changed); copy it again or make it again"
                )
            table = read_part(path, content)
            expected = pa.field(EMBEDDING, pa.list_(pa.float32(), width))
            if expected not in table.schema or not table.num_rows:
                raise InputError(f"{path}: has no embeddings of {width:,} numbers; make them again")
            flat = table[EMBEDDING].combine_chunks().flatten().to_numpy()
            rows = table.drop_columns([EMBEDDING]).replace_schema_metadata(None)
            yield rows, flat.reshape(table.num_rows, width)
            count, number = count + table.num_rows, number + 1
        if count != self.info["texts"]:
            raise InputError(
                f"{self.name}: has {count:,} embeddings, and its {INFO_FILE} says "
                f"{self.info['texts']:,}; make them again"
            )


def read_part(path: str, content: bytes) -> pa.Table:
    """Returns the rows of a Parquet file with this content.

    Raises:
      InputError: it cannot be read.
    """
    try:
        return pq.read_table(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path}: cannot be read ({str(error).splitlines()[0]}); make it again"
        ) from error


def open_embeddings(folder: str) -> EmbeddingsFolder:
    """Opens a folder that `beambert embed` finished.

    Raises:
      InputError: there is none.
    """
    folder = folder.rstrip("/")
    name = f"--embeddings={folder}"
    if not is_embeddings(folder):
        raise InputError(
            f"{name}: not a finished folder of `beambert embed`; check the path, or give its "
            "command again, which continues it"
        )
    wanted, remedy = ("texts", "width", "sha256"), "make the folder again"
    info = io.read_object(f"{folder}/{INFO_FILE}", *wanted, remedy=remedy)
    job = io.read_object(f"{folder}/{MARKER_FILE}", remedy=remedy)
    is_whole = isinstance(info["sha256"], list) and {key: info.get(key) for key in job} == job
    are_numbers = all(isinstance(info[each], int) for each in ("texts", "width"))
    if not (is_whole and are_numbers and 0 < info["width"] < 1 << 20):
        raise InputError(f"{folder}/{INFO_FILE}: is damaged; {remedy}")
    return EmbeddingsFolder(folder, name, info)


def is_embeddings(folder: str) -> bool:
    """Returns whether `beambert embed` has finished a folder."""
    names = (MARKER_FILE, INFO_FILE)
    return all(io.exists(f"{folder}/{name}") for name in names)


# Number of texts in a file. A command that is killed loses the work on one file at most.
PART_TEXTS = 8192


def embed_files(job: "EmbeddingJob") -> None:
    """Writes the embeddings of the texts of files, in their order.

    Each file `part-*.parquet` has the columns `file`, `line`, `start`, `id` if there are
    identifiers, `text`, and `embedding`, a list of fixed size of float32. A part that is there is
    not made again.

    Args:
      job: the encoder, the files and the folder.

    Raises:
      InputError: the model or a file cannot be used, or the folder holds something else.
    """
    paths, output = [file.path for file in io.match_inputs(job.input)], job.output.rstrip("/")
    embedder = job.open()
    print(f"{counted(len(paths), 'file')} -> {output}", flush=True)
    # Every row is read once before the first is embedded, so that a bad one costs no work.
    sums: dict[str, str] = {}
    texts, cut = sum(1 for _ in read_texts(paths, job, sums)), 0
    if not texts:
        raise InputError(f"--input={' '.join(paths)}: has no text; put one on each line")
    width, longest = embedder.width, embedder.settings.max_seq_length
    settings = dataclasses.asdict(embedder.settings)
    del settings["encoder"]  # The hash of the weights stands for it, wherever the folder lies.
    identity = {
        "model_sha256": embedder.sha256,
        "tokenizer_sha256": embedder.vocabulary.sha256,
        "settings": settings,
        "reading": {name: getattr(job, name) for name in READING},
        "input": [{"path": path, "sha256": sums[path]} for path in paths],
    }
    with folders.claimed(output, identity) as folder:
        if folder.is_finished:
            print(f"{output}: already finished by the same command, nothing to do")
            return
        rows, report, of_parts = read_texts(paths, job, sums), show_progress("texts"), []
        for number, start in enumerate(range(0, texts, PART_TEXTS)):
            part = list(itertools.islice(rows, PART_TEXTS))
            path = f"{output}/{PART.format(number)}"
            if io.exists(path):
                data = io.read_bytes(path, most=None)
                cut += int((read_part(path, data).schema.metadata or {}).get(b"cut", 0))
            else:
                vectors, cut_here = embedder.embed(
                    [row.text for row in part], further(report, start, texts)
                )
                table = table_of(part, vectors, bool(job.id_column))
                table = table.replace_schema_metadata({"cut": str(cut_here)})
                content = pa.BufferOutputStream()
                pq.write_table(table, content, use_dictionary=["file"], compression="zstd")
                data = content.getvalue().to_pybytes()
                io.write_bytes(path, data)
                cut += cut_here
            of_parts.append(hashlib.sha256(data).hexdigest())
        found = {"texts": texts, "cut": cut, "width": width, "sha256": of_parts}
        folder.write_json(INFO_FILE, found | identity)
    shortened = f"; {counted(cut, 'text')} cut to {longest:,} tokens" if cut else ""
    print(f"{output}: embeddings of {counted(texts, 'text')}, {width:,} wide{shortened}")


def table_of(rows: Sequence[TextRow], vectors: np.ndarray, has_ids: bool) -> pa.Table:
    """Returns the table of texts and their embeddings, float32 [texts, H]."""
    columns: dict[str, Any] = {
        "file": [row.file for row in rows],
        "line": pa.array([row.line for row in rows], pa.int64()),
        "start": pa.array([row.start for row in rows], pa.int64()),
    }
    if has_ids:
        columns["id"] = [row.id for row in rows]
    columns["text"] = [row.text for row in rows]
    columns[EMBEDDING] = pa.FixedSizeListArray.from_arrays(
        pa.array(vectors.reshape(-1)), vectors.shape[1]
    )
    return pa.table(columns)
