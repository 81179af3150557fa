"""Hard negatives: passages that a model takes for answers of a query, and that are none.

Shape suffixes: Q queries, H components of a vector.
"""

import dataclasses
import json
from collections.abc import Iterator, Sequence

import numpy as np

from beambert import folders
from beambert.errors import InputError
from beambert.pipelines.tasks.metrics import text_id
from beambert.pipelines.tasks.reading import has_split, read_file, sha256_of, split_path
from beambert.pipelines.tasks.task import TRAIN, Task
from beambert.pipelines.tasks.vectors import VectorExample
from beambert.trainer.embedding.embedder import Embedder, Report, no_report
from beambert.trainer.retrieval.searching import Index, query_embedder

# Number of passages that are looked at for each query.
DEPTH = 100
# A passage whose cosine is greater than this share of the right text's may be right, too: the best
# of the methods in de Souza Moreira et al. 2024 (arXiv 2407.15831), which they call TopK-PercPos.
MOST_OF_RIGHT = 0.95
# The column of the n-th negative; `--task=embedding` reads columns that begin so.
COLUMN = "negative_{}"
FLAGS_OF = (
    {
        "index": "--index",
        "data_sha256": "--data_dir",
        "text_columns": "--text_columns",
        "hard_negatives": "--hard_negatives",
        "prefix": "--prefix",
    },
)


@dataclasses.dataclass(frozen=True)
class Mined:
    """The hard negatives of some pairs.

    Attributes:
      negatives: the passages for each pair, the nearest first.
      drawn: number of them that were drawn at random, where too few are near enough.
    """

    negatives: Sequence[tuple[str, ...]]
    drawn: int


def mine(
    index: Index,
    pairs: Sequence[VectorExample],
    queries_QH: np.ndarray,
    right_QH: np.ndarray,
    count: int,
) -> Mined:
    """Finds hard negatives for each pair in an index.

    Of the passages with the greatest cosines, those are left out that the query must find in any
    pair, that contain such a text or are part of it, that are equal to a text of the pair, and
    whose cosine is more than `MOST_OF_RIGHT` of the right text's.

    Args:
      index: the index, which has the texts of its passages.
      pairs: the pairs.
      queries_QH: vectors of their first texts, of length 1, float32.
      right_QH: vectors of the texts that these must find.
      count: number of negatives for each pair.

    Raises:
      InputError: the index has too few other passages.
    """
    right: dict[str, set[str]] = {}
    for pair in pairs:
        right.setdefault(pair.text, set()).add(pair.text_b.strip())
    negatives, drawn = [], 0
    for pair, query_H, right_H in zip(pairs, queries_QH, right_QH, strict=True):
        cosine = float(query_H @ right_H)
        ranking = index.nearest(query_H, DEPTH)
        near = ranking.numbers_K[ranking.scores_K <= min(cosine, cosine * MOST_OF_RIGHT)].tolist()
        # Enough that all are drawn of an index with few passages.
        generator = np.random.default_rng(abs(text_id(pair.text)))
        others = generator.integers(0, index.passages.num_rows, 10 * (count + DEPTH)).tolist()
        found: list[str] = []
        left_out = {pair.text, *pair.negatives}
        for place, number in enumerate(near + others):
            if len(found) == count:
                break
            text = index.passages["text"][number].as_py().strip()
            if text in left_out or any(text in each or each in text for each in right[pair.text]):
                continue
            found.append(text)
            left_out.add(text)
            drawn += place >= len(near)
        if len(found) < count:
            raise InputError(
                f"{index.name}: has only {len(found):,} passages that are not right for the query "
                f"{pair.text!r:.60}; give a smaller --hard_negatives, or a larger index"
            )
        negatives.append(tuple(found))
    return Mined(negatives, drawn)


def add_negatives(
    index: Index,
    model: Embedder,
    task: Task,
    data_dir: str,
    output: str,
    count: int,
    prefix: str | None = None,
    report: Report = no_report,
) -> Mined | None:
    """Writes the data of a task again, with hard negatives in its train file; see `mine`.

    Args:
      index: the index, which has the texts of its passages.
      model: the model of the index, as its folder describes it.
      task: declaration of the task, whose train file has pairs.
      data_dir: folder of its files.
      output: folder to make; dev and test are copied to it.
      count: number of negatives for each pair.
      prefix: what is put before each query (default: as before the passages).
      report: called with the numbers of texts that are embedded and in all.

    Returns:
      the negatives; None if the same command has written them before.

    Raises:
      InputError: a file or folder cannot be used, the model is not that of the index, or train has
        no pairs.
    """
    output = output.rstrip("/")
    queries, answers = (query_embedder(index, model, each) for each in (prefix, None))
    splits = [split for split in task.files if split == TRAIN or has_split(task, data_dir, split)]
    paths = {split: split_path(task, data_dir, split) for split in splits}
    pairs = read_file(task, data_dir, TRAIN).examples
    if pairs[0].text_b is None:
        raise InputError(
            f"{paths[TRAIN]}: has no column {task.text_columns[1]!r}, the text that must be found; "
            "only pairs can have hard negatives"
        )
    identity = {
        "index": index.info,
        "data_sha256": {split: sha256_of(path) for split, path in paths.items()},
        "text_columns": list(task.text_columns),
        "hard_negatives": count,
        "prefix": queries.settings.prefix,
    }
    with folders.claimed(output, identity, FLAGS_OF) as folder:
        if folder.is_finished:
            return None
        queries_QH = _unit_vectors(queries, [pair.text for pair in pairs], report)
        right_QH = _unit_vectors(answers, [pair.text_b for pair in pairs], report)
        found = mine(index, pairs, queries_QH, right_QH, count)
        lines = "".join(
            f"{json.dumps(row, ensure_ascii=False)}\n"
            for row in _rows(task, pairs, found.negatives)
        )
        folder.write(f"{TRAIN}.jsonl", lines.encode())
        for split, path in paths.items():
            if split != TRAIN:
                folder.write(path.name, path.read_bytes())
    return found


def _unit_vectors(embedder: Embedder, texts: Sequence[str], report: Report) -> np.ndarray:
    """Returns the vectors of texts, of length 1, float32 [Q, H]; equal texts are read once."""
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    vectors_QH = embedder.embed(list(places), report)[0]
    vectors_QH = vectors_QH / np.maximum(np.linalg.norm(vectors_QH, axis=1, keepdims=True), 1e-12)
    return vectors_QH[[places[text] for text in texts]]


def _rows(
    task: Task, pairs: Sequence[VectorExample], negatives: Sequence[tuple[str, ...]]
) -> Iterator[dict[str, str]]:
    """Yields the rows of the new train file."""
    for pair, found in zip(pairs, negatives, strict=True):
        texts = zip(task.text_columns, (pair.text, pair.text_b), strict=True)
        numbered = enumerate((*pair.negatives, *found), start=1)
        yield dict(texts) | {COLUMN.format(number): text for number, text in numbered}
