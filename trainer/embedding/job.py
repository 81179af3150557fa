"""Embeds the texts of files into a folder of Parquet files, and continues where it was killed."""

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import claims, locks, tensorflow_files
from beambert.trainer.embedding.embedder import Embedder, Report, no_report
from beambert.trainer.embedding.finished_folders import EMBEDDING, INFO_FILE, PART, read_part
from beambert.trainer.embedding.text_files import Reading, TextRow, read_texts, sha256_of

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
      was_done: whether the same command had finished it before.
    """

    texts: int
    cut: int
    width: int
    was_done: bool = False


def identity_of(
    embedder: Embedder, paths: Sequence[str], reading: Reading, keeps_text: bool
) -> dict[str, Any]:
    """Returns everything that decides the embeddings, for the marker of the folder."""
    settings = dataclasses.asdict(embedder.settings)
    del settings["encoder"]  # The hash of the weights stands for it, wherever the folder lies.
    return {
        "model_sha256": embedder.sha256,
        "tokenizer_sha256": embedder.vocabulary.sha256,
        "settings": settings,
        "reading": dataclasses.asdict(reading),
        "keeps_text": keeps_text,
        "input": [{"path": path, "sha256": sha256_of(path)} for path in paths],
    }


def embed_files(
    embedder: Embedder,
    paths: Sequence[str],
    output: str,
    reading: Reading,
    keeps_text: bool = True,
    report: Report = no_report,
) -> Embedded:
    """Writes the embeddings of the texts of files, in their order.

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
    output = output.rstrip("/")
    identity = identity_of(embedder, paths, reading, keeps_text)
    with locks.folders_held([output], "--output"):
        names = tensorflow_files.list_folder(output)

        def read(name: str) -> bytes:
            return tensorflow_files.read_bytes(f"{output}/{name}", "--output")

        if claims.is_finished(output, names, read, identity, "--output", FLAGS_OF):
            info = json.loads(read(INFO_FILE))
            return Embedded(info["texts"], info["cut"], info["width"], was_done=True)
        # Every row is read once before the first is embedded, so that a bad one costs no work.
        total = sum(1 for _ in read_texts(paths, reading))
        if not total:
            raise InputError(f"--input={' '.join(paths)}: has no text; put one on each line")
        tensorflow_files.write_bytes(
            f"{output}/{claims.UNFINISHED_FILE}", claims.serialize_job(identity)
        )
        cut = _write_parts(embedder, read_texts(paths, reading), total, output, identity, report)
        found = Embedded(total, cut, embedder.width)
        info = {"texts": total, "cut": cut, "width": embedder.width} | identity
        tensorflow_files.write_bytes(f"{output}/{INFO_FILE}", claims.serialize_job(info))
        tensorflow_files.write_bytes(
            f"{output}/{claims.MARKER_FILE}", claims.serialize_job(identity)
        )
        tensorflow_files.delete(f"{output}/{claims.UNFINISHED_FILE}")
    return found


def _write_parts(
    embedder: Embedder,
    rows: Iterator[TextRow],
    total: int,
    output: str,
    identity: dict[str, Any],
    report: Report,
) -> int:
    """Writes the files that are missing; returns the number of texts that were cut."""
    cut, done = 0, 0
    parts = iter(lambda: list(itertools.islice(rows, PART_TEXTS)), [])
    for number, part in enumerate(parts):
        path = f"{output}/{PART.format(number)}"
        if tensorflow_files.exists(path):
            cut += int((read_part(path).schema.metadata or {}).get(b"cut", 0))
        else:
            vectors, cut_here = embedder.embed(
                [row.text for row in part], _further(report, done, total)
            )
            table = table_of(part, vectors, identity).replace_schema_metadata(
                {"cut": str(cut_here)}
            )
            content = pa.BufferOutputStream()
            pq.write_table(table, content, use_dictionary=["file"], compression="zstd")
            tensorflow_files.write_bytes(path, content.getvalue().to_pybytes())
            cut += cut_here
        done += len(part)
    return cut


def _further(report: Report, before: int, total: int) -> Callable[[int, int], None]:
    """Returns a report about a part of the texts, of which some were done before."""
    return lambda done, _: report(before + done, total)


def table_of(rows: Sequence[TextRow], vectors: np.ndarray, identity: dict[str, Any]) -> pa.Table:
    """Returns the table of texts and their embeddings, float32 [texts, H]."""
    columns: dict[str, Any] = {
        "file": [row.file for row in rows],
        "line": pa.array([row.line for row in rows], pa.int64()),
        "start": pa.array([row.start for row in rows], pa.int64()),
    }
    if identity["reading"]["id_column"]:
        columns["id"] = [row.id for row in rows]
    if identity["keeps_text"]:
        columns["text"] = [row.text for row in rows]
    columns[EMBEDDING] = pa.FixedSizeListArray.from_arrays(
        pa.array(vectors.reshape(-1)), vectors.shape[1]
    )
    return pa.table(columns)
