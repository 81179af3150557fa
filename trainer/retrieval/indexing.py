"""The job of `beambert index`: makes a folder that is searched, out of embeddings.

Shape suffixes: N passages, H components of a vector.
"""

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beambert import folders, storage
from beambert.errors import InputError
from beambert.storage import is_local
from beambert.trainer.embedding.embedder import Report, no_report
from beambert.trainer.embedding.finished_folders import EmbeddingsFolder, open_embeddings
from beambert.trainer.embedding.writing import FLAGS_OF as EMBED_FLAGS
from beambert.trainer.retrieval.bm25 import FILES as WORDS_FILES
from beambert.trainer.retrieval.bm25 import bm25_of, words_of
from beambert.trainer.retrieval.settings import EXACT, EXACT_MOST, HNSW
from beambert.trainer.retrieval.vectors import (
    ExactVectors,
    ExactWriter,
    HnswVectors,
    HnswWriter,
    usearch_index,
)

# What is in the folder, and the passages without their vectors.
INDEX_FILE, PASSAGES_FILE = "index.json", "passages.arrow"
# The flags behind the values that decide the index.
FLAGS_OF = ({"embeddings": "--embeddings", "method": "--method"},)


@dataclasses.dataclass(frozen=True)
class Indexed:
    """What an index has.

    Attributes:
      passages: number of passages.
      method: how vectors are found, `EXACT` or `HNSW`.
      recall: share of the ten nearest others that vectors of the index find; see `HnswVectors`.
      has_words: whether passages can be found by words.
      was_done: whether the same command had finished it before.
    """

    passages: int
    method: str
    recall: float
    has_words: bool
    was_done: bool = False


def make_index(
    embeddings: Sequence[str], output: str, method: str | None = None, report: Report = no_report
) -> Indexed:
    """Makes an index of folders of embeddings, which `searching.open_index` opens.

    Args:
      embeddings: folders that `beambert embed` finished, made alike from different files.
      output: folder of this machine to make.
      method: `EXACT` or `HNSW`; None for the former up to `EXACT_MOST` vectors.
      report: called with the numbers of passages that are done and in all.

    Raises:
      InputError: the output is elsewhere, a folder cannot be used, or a vector has no direction.
    """
    if not is_local(output):
        raise InputError(
            f"--output={output}: must be on this machine, whose memory the index is mapped "
            "into; name a folder here"
        )
    output = output.rstrip("/")
    found = _open_alike(embeddings)
    count = sum(each.info["texts"] for each in found)
    method = method or (EXACT if count <= EXACT_MOST else HNSW)
    if method == HNSW:
        usearch_index()
    identity = {"embeddings": [each.info for each in found], "method": method}
    with folders.claimed(output, identity, FLAGS_OF) as folder:
        if folder.is_finished:
            about = folder.read_json(INDEX_FILE)
            return Indexed(
                count, method, about["recall_at_10"], WORDS_FILES[0] in about["files"], True
            )
        with storage.translate_errors(output, "written"):
            recall, files = _write(found, output, method, report)
        sizes = {name: os.path.getsize(f"{output}/{name}") for name in files}
        about = identity | {"passages": count, "recall_at_10": recall, "files": sizes}
        folder.write_json(INDEX_FILE, about)
    return Indexed(count, method, recall, WORDS_FILES[0] in files)


def _open_alike(embeddings: Sequence[str]) -> list[EmbeddingsFolder]:
    """Opens folders of embeddings.

    Raises:
      InputError: one cannot be used, comes twice, or was made otherwise than the first.
    """
    found: list[EmbeddingsFolder] = []
    for folder in embeddings:
        found.append(open_embeddings(folder))
        first, last = found[0], found[-1]
        if any(each.path == last.path for each in found[:-1]):
            raise InputError(f"{last.name}: comes twice; name it once")
        difference = folders.describe_difference(_making(first), _making(last), EMBED_FLAGS)
        if difference:
            raise InputError(
                f"{last.name}: was made otherwise than {first.path} ({difference}); embed its "
                "files in the same way"
            )
    return found


def _making(found: EmbeddingsFolder) -> dict[str, Any]:
    """Returns what embeddings of one index must have in common."""
    names = ("model_sha256", "tokenizer_sha256", "settings", "width", "keeps_text")
    has_ids = bool(found.info.get("reading", {}).get("id_column"))
    return {name: found.info.get(name) for name in names} | {"has an --id_column": has_ids}


def _write(
    found: Sequence[EmbeddingsFolder], output: str, method: str, report: Report
) -> tuple[float, list[str]]:
    """Writes the files of an index; returns the recall of its vectors, and the files' names."""
    count, about = sum(each.info["texts"] for each in found), found[0].info
    writer = (ExactWriter if method == EXACT else HnswWriter)(output, count, about["width"])

    def words() -> Iterator[list[str]]:
        """Writes the passages and their vectors; yields the words of each passage."""
        done = 0
        with contextlib.ExitStack() as stack:
            passages = None
            for table, vectors_NH in itertools.chain.from_iterable(each.parts() for each in found):
                if passages is None:
                    file = f"{output}/{PASSAGES_FILE}"
                    passages = stack.enter_context(pa.ipc.new_file(file, table.schema))
                passages.write_table(table)
                writer.add(units(vectors_NH, table))
                done += len(vectors_NH)
                report(done, count)
                if "text" in table.column_names:
                    yield from map(words_of, table["text"].to_pylist())

    bm25 = bm25_of(words())
    writer.finish()
    files = [PASSAGES_FILE, (ExactVectors if method == EXACT else HnswVectors).FILE]
    if about["keeps_text"]:
        bm25.save(output)
        files += WORDS_FILES
    return HnswVectors(writer.graph).recall() if method == HNSW else 1.0, files


def units(vectors_NH: np.ndarray, rows: pa.Table) -> np.ndarray:
    """Returns vectors scaled to the length 1, so that products are cosines; float32.

    Args:
      vectors_NH: the vectors.
      rows: their rows, for messages.

    Raises:
      InputError: a vector has no direction.
    """
    lengths_N1 = np.linalg.norm(vectors_NH, axis=1, keepdims=True)
    is_bad = ~(np.isfinite(lengths_N1) & (lengths_N1 > 0))[:, 0]
    if is_bad.any():
        row: dict[str, Any] = rows.slice(int(is_bad.argmax()), 1).to_pylist()[0]
        raise InputError(
            f"{row['file']}, line {row['line']:,}: has an embedding that is zero or no finite "
            "number; embed the files again"
        )
    return vectors_NH / lengths_N1
