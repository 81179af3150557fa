"""The slices of an evaluation: by label, by length, and by columns with few values."""

import dataclasses
import math
from collections.abc import Sequence

from beambert.errors import InputError
from beambert.pipelines.evaluation.records import RECORDS
from beambert.pipelines.tasks.examples import Example
from beambert.pipelines.tasks.squad import Question

# Greatest numbers of values of a column that makes slices by itself, and of one that is named. Each
# slice has its own bootstrap, which takes time.
MOST_VALUES, MOST_VALUES_IF_NAMED = 20, 200
_LENGTH_BUCKETS = (
    *((8, "1-8"), (16, "9-16"), (32, "17-32"), (64, "33-64"), (128, "65-128"), (256, "129-256")),
    (math.inf, "257+"),
)
LENGTH, LABEL, PREDICTION = "length", "label", "prediction"


@dataclasses.dataclass(frozen=True)
class Slicing:
    """One way to divide the examples into slices.

    Attributes:
      name: name of the feature that holds the value.
      values: value of each example.
      order: all values in the order of reports.
    """

    name: str
    values: tuple[str, ...]
    order: tuple[str, ...]


def slicings(
    kind: str,
    examples: Sequence[Example | Question],
    labels: Sequence[str],
    taken: Sequence[str],
    named: Sequence[str] | None = None,
) -> list[Slicing]:
    """Returns the slicings of examples except that by prediction, which is not known yet.

    Args:
      kind: kind of the task.
      examples: examples with labels.
      labels: labels in index order.
      taken: names of other features; a column with such a name is called `column NAME`.
      named: names of the slicings that the user wants; None for all.
    """
    most = MOST_VALUES if named is None else MOST_VALUES_IF_NAMED
    queries = [RECORDS[kind].query(example) for example in examples]
    lengths = tuple(
        length_bucket(example) if query is None else _bucket(len(query.split()))
        for example, query in zip(examples, queries, strict=True)
    )
    found = [Slicing(LENGTH, lengths, tuple(name for _, name in _LENGTH_BUCKETS))]
    by_label = RECORDS[kind].label_slices(examples, labels)
    if by_label:
        found.append(Slicing(LABEL, *by_label))
    common = [name for name in examples[0].columns if all(name in e.columns for e in examples)]
    for column in common:
        values = tuple(example.columns[column] for example in examples)
        # A slice with some of a query's candidates alone would have another ranking.
        tears = None not in queries and len({*zip(queries, values, strict=True)}) > len({*queries})
        # A column with one value would repeat the overall metrics.
        if 2 <= len(set(values)) <= most and not tears:
            name = f"column {column}" if column in (*taken, LENGTH, LABEL, PREDICTION) else column
            found.append(Slicing(name, values, tuple(sorted(set(values)))))
    return found


def check_names(named: Sequence[str], found: Sequence[str]) -> None:
    """Refuses names of slicings that there are not.

    Args:
      named: names that the user wants.
      found: names of all slicings.

    Raises:
      InputError: one is not among them.
    """
    for name in named:
        if name not in found:
            raise InputError(
                f"--slices={','.join(named)}: {name!r} is none of the slices of this file, which "
                f"are {', '.join(found)}; name one of them (a column that is named needs 2 to "
                f"{MOST_VALUES_IF_NAMED} values, and one for each query of a reranking)"
            )


def length_bucket(example: Example | Question) -> str:
    """Returns the bucket of an example's number of words.

    The words of both texts of a pair, or of a question and its context, count together. Among
    several endings, the longest counts. `slicings` counts the words of a query alone.
    """
    words = sum(
        len(text.split()) if isinstance(text, str) else max(len(part.split()) for part in text)
        for text in example.texts().values()
    )
    return _bucket(words)


def _bucket(words: int) -> str:
    return next(name for most, name in _LENGTH_BUCKETS if words <= most)


def slice_title(name: str, value: str) -> str:
    """Returns the title of a slice; a value that begins or ends with a space is quoted."""
    return f"{name} = {value if value and value == value.strip() else repr(value)}"
