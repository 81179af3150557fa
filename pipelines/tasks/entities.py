"""Named entities as spans of tags, and their precision, recall and F1 as conlleval computes them.

The tags are O, B-type and I-type. They may follow the scheme IOB1 or IOB2, or mix both as models
do. As in conlleval, an entity begins at a B, and at an I unless the word before it is part of an
entity of the same type.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beambert.errors import InputError

OUTSIDE = "O"


@dataclasses.dataclass(frozen=True)
class Entity:
    """An entity: consecutive words of a sentence.

    Attributes:
      type: the part of its tags behind the first hyphen; "" if there is none.
      start: position of its first word.
      end: position after its last word.
    """

    type: str
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class EntityCounts:
    """How many entities there are, how many were predicted, and how many of those are right."""

    true: int = 0
    predicted: int = 0
    correct: int = 0

    def __add__(self, other: "EntityCounts") -> "EntityCounts":
        """Returns the sums of two counts."""
        return EntityCounts(
            self.true + other.true,
            self.predicted + other.predicted,
            self.correct + other.correct,
        )

    @property
    def any(self) -> bool:
        """Whether there is a true or a predicted entity."""
        return self.true + self.predicted > 0

    @property
    def precision(self) -> float:
        """Share of the predicted entities that are right; 0 if none is predicted."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the true entities that were found; 0 if there are none."""
        return self.correct / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if both are 0."""
        return 2 * self.correct / (self.true + self.predicted) if self.correct else 0.0


def is_entity_tag(tag: str) -> bool:
    """Whether a tag is O, B-type or I-type."""
    return tag == OUTSIDE or tag.startswith(("B-", "I-"))


def entities(tags: Sequence[str]) -> list[Entity]:
    """Returns the entities of one sentence, in order.

    Raises:
      InputError: a tag is none of O, B-type, I-type.
    """
    found: list[Entity] = []
    start, current = 0, None
    for position, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, name = tag.partition("-")
        if not is_entity_tag(tag):
            raise InputError(
                f"--task: the tag {tag!r} is none of O, B-type and I-type, in which entities are "
                "counted; rename the tags, or take --task=word_labels"
            )
        kind = None if tag == OUTSIDE else name
        if prefix == "I" and kind == current:
            continue
        if current is not None:
            found.append(Entity(current, start, position))
        start, current = position, kind
    return found


def count_entities(
    true_tags: Sequence[str], predicted_tags: Sequence[str]
) -> dict[str, EntityCounts]:
    """Returns the counts of one sentence by type of entity.

    A predicted entity is right if there is a true entity with the same type and the same words.

    Raises:
      ValueError: the numbers of true and predicted tags differ.
      InputError: a tag is none of O, B-type, I-type.
    """
    if len(true_tags) != len(predicted_tags):
        raise ValueError(f"{len(true_tags)} true but {len(predicted_tags)} predicted tags")
    true, predicted = set(entities(true_tags)), set(entities(predicted_tags))
    by_type: dict[str, EntityCounts] = collections.defaultdict(EntityCounts)
    for counted, one in (
        (true, EntityCounts(true=1)),
        (predicted, EntityCounts(predicted=1)),
        (true & predicted, EntityCounts(correct=1)),
    ):
        for entity in counted:
            by_type[entity.type] += one
    return dict(by_type)


def add_counts(parts: Iterable[Mapping[str, EntityCounts]]) -> dict[str, EntityCounts]:
    """Returns the sums of counts by type."""
    sums: dict[str, EntityCounts] = collections.defaultdict(EntityCounts)
    for part in parts:
        for name, counts in part.items():
            sums[name] += counts
    return dict(sums)


def scores_of_counts(by_type: Mapping[str, EntityCounts]) -> dict[str, Any]:
    """Returns the scores that `entity_scores` describes, computed from counts by type."""
    overall = sum(by_type.values(), EntityCounts())
    return {
        "entity_precision": overall.precision,
        "entity_recall": overall.recall,
        "entity_f1": overall.f1,
        "by_type": {
            name: {
                "precision": counts.precision,
                "recall": counts.recall,
                "f1": counts.f1,
                **dataclasses.asdict(counts),
            }
            for name, counts in sorted(by_type.items())
        },
    }


def entity_scores(
    true_tags: Sequence[Sequence[str]], predicted_tags: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Returns precision, recall and F1 over all sentences, from 0 to 1.

    Args:
      true_tags: the true tags, [sentences][words].
      predicted_tags: the predicted tags, [sentences][words].

    Returns:
      `entity_precision`, `entity_recall`, `entity_f1` over all entities (not a mean over types),
      and `by_type` → type → `precision`, `recall`, `f1` and the counts `true`, `predicted` and
      `correct`.

    Raises:
      ValueError: the numbers of sentences or words differ.
      InputError: a tag is none of O, B-type, I-type.
    """
    pairs = zip(true_tags, predicted_tags, strict=True)
    return scores_of_counts(add_counts(count_entities(true, found) for true, found in pairs))
