"""The slices of an evaluation: by label, by length, and by input columns with few values."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from beambert.pipelines.tasks.declarations import CHOICE, CLASSIFICATION, REGRESSION, SPAN
from beambert.pipelines.tasks.examples import ChoiceExample, Example, TaggedExample
from beambert.pipelines.tasks.squad import Question

_MAX_VALUES_OF_A_COLUMN = 20
_LENGTH_BUCKETS = (
    *((8, "1-8"), (16, "9-16"), (32, "17-32"), (64, "33-64"), (128, "65-128"), (256, "129-256")),
    (math.inf, "257+"),
)
LENGTH, LABEL, PREDICTION = "length", "label", "prediction"
# Labels and predictions of questions where some have no answer.
ANSWER, NO_ANSWER = "answer", "no answer"


@dataclasses.dataclass(frozen=True)
class Slicing:
    """One way to part the examples.

    Attributes:
      name: of the feature that holds the value.
      values: of each example.
      order: of the values in reports.
    """

    name: str
    values: tuple[str, ...]
    order: tuple[str, ...]


def slicings(
    kind: str, examples: Sequence[Example | Question], labels: Sequence[str], taken: Sequence[str]
) -> list[Slicing]:
    """Returns the ways to part these examples, but for the prediction, which nobody knows yet.

    Args:
      kind: of the task.
      examples: labelled.
      labels: in index order.
      taken: names of other features; an input column of such a name is called `column NAME`.
    """
    lengths = tuple(length_bucket(example) for example in examples)
    found = [Slicing(LENGTH, lengths, tuple(name for _, name in _LENGTH_BUCKETS))]
    if kind in (CLASSIFICATION, CHOICE):
        found.append(Slicing(LABEL, tuple(example.label for example in examples), tuple(labels)))
    elif kind == REGRESSION:
        found.append(_quarters([float(example.label) for example in examples]))
    elif kind == SPAN:
        if any(question.is_impossible for question in examples):
            values = tuple(NO_ANSWER if q.is_impossible else ANSWER for q in examples)
            found.append(Slicing(LABEL, values, (ANSWER, NO_ANSWER)))
        return found
    common = [name for name in examples[0].columns if all(name in e.columns for e in examples)]
    for column in common:
        values = tuple(example.columns[column] for example in examples)
        # A column with one value would repeat the overall metrics.
        if 2 <= len(set(values)) <= _MAX_VALUES_OF_A_COLUMN:
            name = f"column {column}" if column in (*taken, LENGTH, LABEL, PREDICTION) else column
            found.append(Slicing(name, values, tuple(sorted(set(values)))))
    return found


def length_bucket(example: Example | Question) -> str:
    """Returns the bucket of an example's number of words: of a pair, both texts together.

    Of several endings, the longest counts; of a question, its context too.
    """
    if isinstance(example, TaggedExample):
        words = len(example.words)
    elif isinstance(example, Question):
        words = len(example.question.split()) + len(example.context.split())
    else:
        words = len(example.text.split()) + len((example.text_b or "").split())
        if isinstance(example, ChoiceExample):
            words += max(len(choice.split()) for choice in example.choices)
    return next(name for most, name in _LENGTH_BUCKETS if words <= most)


def slice_title(name: str, value: str) -> str:
    """Returns how a slice is called; quotes show a value that begins or ends with a space."""
    return f"{name} = {value if value and value == value.strip() else repr(value)}"


def _quarters(labels: Sequence[float]) -> Slicing:
    """Parts numbers into four ranges of about as many examples; equal ones stay together."""
    edges = np.quantile(labels, [0.25, 0.5, 0.75], method="inverted_cdf")
    quarters = np.searchsorted(edges, labels)
    names = {}
    for quarter in sorted(set(quarters.tolist())):
        inside = np.array(labels)[quarters == quarter]
        names[quarter] = f"{inside.min():g} to {inside.max():g}"
    return Slicing(
        LABEL, tuple(names[quarter] for quarter in quarters.tolist()), tuple(names.values())
    )
