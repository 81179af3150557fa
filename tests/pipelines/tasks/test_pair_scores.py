"""The classification of pairs by cosine against sentence-transformers and scikit-learn."""

import json
import pathlib

import pytest

from beambert.pipelines.tasks.metrics import pair_scores

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "pairs_by_cosine.json"
CASES = json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("case", CASES)
def test_scores_equal_sentence_transformers(case):
    """Ties, rare and common pairs, and pairs of one label; make_golden_pairs_by_cosine.py."""
    found = pair_scores(case["labels"], case["cosines"])
    assert found == pytest.approx(case["scores"], abs=1e-9)


def test_a_threshold_that_takes_no_pair():
    """The best accuracy calls both different where the cosines have the wrong order."""
    found = pair_scores([0, 0, 1], [0.9, 0.8, 0.1])
    assert found["accuracy"] == pytest.approx(2 / 3) and found["accuracy_threshold"] > 0.9
    assert found["average_precision"] == pytest.approx(1 / 3)
    assert found["f1"] == pytest.approx(1 / 2) and found["f1_threshold"] == pytest.approx(0.1)
