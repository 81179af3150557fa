"""Entities against conlleval and seqeval (golden values, see make_golden_metrics.py)."""

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beambert.errors import InputError
from beambert.pipelines.tasks.tables import BadRow
from beambert.pipelines.tasks.tagging import (
    Entity,
    TaggedExample,
    Tagging,
    TagOutcomes,
    entities,
    sentences_of,
)

CASES = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "entities.json").read_text())
# (words outside before it, type, words)
SPANS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", "creative-work"]), st.integers(1, 3))
)


SCORES = ("entity_precision", "entity_recall", "entity_f1")


def outcomes(true, predicted) -> TagOutcomes:
    pairs = zip(true, predicted, strict=True)
    return TagOutcomes.of_records([{"tags": one, "predicted_tags": other} for one, other in pairs])


@pytest.mark.parametrize("case", CASES)
def test_scores_equal_conlleval_and_seqeval(case):
    """Tags in no proper scheme; types with hyphens; types that occur on one side only."""
    found = outcomes(case["true"], case["predicted"])
    by_type, official = found.details([])["by_type"], case["conlleval"]
    counts = [
        sum(part[name] for part in by_type.values()) for name in ("true", "predicted", "correct")
    ]
    assert counts == official["true_predicted_correct"]
    overall = list(found.scores(SCORES, 1).values())
    assert overall == pytest.approx(case["seqeval"], abs=1e-12)
    assert [100 * score for score in overall] == pytest.approx(official["percent"], abs=0.0051)
    scores = {
        name: [part["precision"], part["recall"], part["f1"]] for name, part in by_type.items()
    }
    assert set(scores) == set(case["seqeval_by_type"]) == set(official["percent_by_type"])
    for name, expected in case["seqeval_by_type"].items():
        assert scores[name] == pytest.approx(expected, abs=1e-6)
        assert [100 * score for score in scores[name]] == pytest.approx(
            official["percent_by_type"][name], abs=0.0051
        )


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


def test_nothing_predicted_or_nothing_there_is_zero():
    """No division by zero."""
    for true, predicted in ((["B-a"], ["O"]), (["O"], ["B-a"]), (["O"], ["O"])):
        assert set(outcomes([true], [predicted]).scores(SCORES, 1).values()) == {0}
    assert outcomes([["O"]], [["O"]]).details([]) == {"by_type": {}}


def test_other_tags_are_refused():
    """Parts of speech are no entities."""
    with pytest.raises(InputError, match="--task: the tag 'NOUN' is none of O, B-type and I-type"):
        entities(["NOUN"])
    with pytest.raises(ValueError, match="shorter"):
        outcomes([["O", "O"]], [["O"]])


# The example of universaldependencies.org, "CoNLL-U Format", with the marks of its other sections.
TREES = """# sent_id = 1
# text = They buy and sell books.
1\tThey\tthey\tPRON\tPRP\tCase=Nom|Number=Plur\t2\tnsubj\t2:nsubj|4:nsubj\t_
2\tbuy\tbuy\tVERB\tVBP\tNumber=Plur\t0\troot\t0:root\t_
2.1\tand\tand\tCCONJ\tCC\t_\t_\t_\t4:cc\t_
3\t#\tsell\tVERB\tVBP\t_\t2\tconj\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\t_\t2\tpunct\t2:punct\t_

1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
"""


def read(text):
    return list(sentences_of(pathlib.Path("a"), text, None))


@pytest.mark.parametrize("before", ["", "\n \n", "# global.columns = ID\n"])
def test_words_and_parts_of_speech_of_trees(before):
    (_, first), (line, second) = read(before + TREES)
    assert first.words == ("They", "buy", "#", ".")
    assert first.tags == ("PRON", "VERB", "VERB", "PUNCT")
    assert (second.words, second.tags) == (("vamos", "nos"), ("VERB", "PRON"))
    assert line == before.count("\n") + 10


def test_a_damaged_line_of_a_tree_is_bad():
    lines = TREES.split("\n")
    (_, bad), (_, second) = read("\n".join([*lines[:3], "2 buy", *lines[4:]]))
    assert isinstance(bad, BadRow) and "line 4: needs 10 columns but has 1" in str(bad)
    assert second.tags == ("VERB", "PRON")


def test_other_columns_are_the_first_and_the_last():
    ((_, sentence),) = read("1\tB-NUM\n#\tO\n2\tO\n")
    assert (sentence.words, sentence.tags) == (("1", "#", "2"), ("B-NUM", "O", "O"))


def test_tabs_divide_the_columns_of_a_file_with_tabs():
    """Words with spaces are words; a line without a tab lacks its tag, whatever spaces it has."""
    ((_, sentence),) = read("-DOCSTART- O\n1 000\tB-NUM\n5\u00a0%\tI-NUM\n\u00a0\tO\nkm\tO\n")
    assert sentence.words == ("1\u00a0000", "5\u00a0%", "\u00a0", "km")
    assert sentence.tags == ("B-NUM", "I-NUM", "O", "O")
    assert len(sentence.texts()["text"].split(" ")) == 4
    ((_, bad),) = read("km\tO\nNew York\n")
    assert isinstance(bad, BadRow) and "needs 2 columns but has 1" in str(bad)


def test_mistakes_of_words_count_wrong_tags():
    """Tags other than O, B-type and I-type form no entities."""
    example = TaggedExample(("a", "river", "ends"), ("DET", "NOUN", "VERB"))
    found = Tagging.mistake({"predicted_tags": [b"DET", b"NOUN", b"NOUN"]}, example)
    assert (found.expected, found.predicted, found.weight) == ("ends (VERB)", "ends (NOUN)", 1.0)
    assert not Tagging.mistake({"predicted_tags": [b"DET", b"NOUN", b"VERB"]}, example).weight
