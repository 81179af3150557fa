"""Entities against conlleval and seqeval (golden values, see make_golden_metrics.py)."""

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beambert.errors import InputError
from beambert.pipelines.tasks.tagging import (
    Entity,
    EntityCounts,
    count_entities,
    entities,
    entity_scores,
)

CASES = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "entities.json").read_text())
# (words outside before it, type, words)
SPANS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", "creative-work"]), st.integers(1, 3))
)


@pytest.mark.parametrize("case", CASES)
def test_scores_equal_conlleval_and_seqeval(case):
    """Tags in no proper scheme; types with hyphens; types that occur on one side only."""
    found = entity_scores(case["true"], case["predicted"])
    by_type, official = found["by_type"], case["conlleval"]
    counts = [
        sum(part[name] for part in by_type.values()) for name in ("true", "predicted", "correct")
    ]
    assert counts == official["true_predicted_correct"]
    overall = [found[name] for name in ("entity_precision", "entity_recall", "entity_f1")]
    assert overall == pytest.approx(case["seqeval"], abs=1e-12)
    assert [100 * score for score in overall] == pytest.approx(official["percent"], abs=0.0051)
    scores = {
        name: [part["precision"], part["recall"], part["f1"]] for name, part in by_type.items()
    }
    assert set(scores) == set(case["seqeval_by_type"]) == set(official["percent_by_type"])
    for name, expected in case["seqeval_by_type"].items():
        assert scores[name] == pytest.approx(expected, abs=1e-12)
        assert [100 * score for score in scores[name]] == pytest.approx(
            official["percent_by_type"][name], abs=0.0051
        )


def test_cases_are_not_all_alike():
    """The golden file has perfect, partial and useless predictions."""
    scores = {round(case["seqeval"][2], 1) for case in CASES}
    assert {0.0, 1.0} < scores and len(scores) > 5


def write_tags(spans, scheme):
    """Returns the entities and the tags that write them in IOB1 or IOB2."""
    tags, found, previous = [], [], None
    for gap, name, words in spans:
        touches = gap == 0 and previous == name
        tags += ["O"] * gap
        found.append(Entity(name, len(tags), len(tags) + words))
        begin = "B" if scheme == "IOB2" or touches else "I"
        tags += [f"{begin}-{name}", *[f"I-{name}"] * (words - 1)]
        previous = name
    return found, tags


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2"])
@given(SPANS)
def test_entities_that_were_written_are_read(scheme, spans):
    """Both schemes say the same; IOB1 has a B only between neighbours of one type."""
    found, tags = write_tags(spans, scheme)
    assert entities(tags) == found
    assert sum(counts.correct for counts in count_entities(tags, tags).values()) == len(found)


def test_nothing_predicted_or_nothing_there_is_zero():
    """No division by zero."""
    for true, predicted in ((["B-a"], ["O"]), (["O"], ["B-a"]), (["O"], ["O"])):
        found = entity_scores([true], [predicted])
        assert (found["entity_precision"], found["entity_recall"], found["entity_f1"]) == (0, 0, 0)
    assert entity_scores([["O"]], [["O"]])["by_type"] == {}


def test_other_tags_are_refused():
    """Parts of speech are no entities."""
    with pytest.raises(InputError, match="--task: the tag 'NOUN' is none of O, B-type and I-type"):
        entity_scores([["NOUN"]], [["NOUN"]])
    with pytest.raises(ValueError, match="2 true but 1 predicted"):
        entity_scores([["O", "O"]], [["O"]])


def test_a_type_is_there_if_either_side_has_one():
    """A report leaves out the types that a slice lacks, and no others."""
    assert EntityCounts(true=1).any and EntityCounts(predicted=1).any
    assert EntityCounts(true=2, predicted=2, correct=1).any
    assert not EntityCounts().any
