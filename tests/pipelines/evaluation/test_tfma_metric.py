"""The combiner that TFMA runs, as Beam may call it."""

import random
import types

import numpy as np
import pytest

from beambert.pipelines.evaluation.tfma_metric import _ScoreRecords
from beambert.pipelines.tasks import declarations


def records(count=60):
    """Returns predictions of a fair classifier, as TFMA gives features."""
    generator = np.random.default_rng(5)
    labels = generator.integers(0, 2, count)
    right = generator.random(count) < 0.7
    return [
        {
            "row": np.array([i]),
            "label_index": np.array([label]),
            "prediction_index": np.array([label if right[i] else 1 - label]),
            "probabilities": np.array([0.4, 0.6], np.float32),
        }
        for i, label in enumerate(labels)
    ]


def combine(batches):
    """Returns metric -> value, from accumulators that were merged."""
    combiner = _ScoreRecords(declarations.CLASSIFICATION, ("accuracy", "macro_f1"), 1)
    accumulators = []
    for batch in batches:
        accumulator = combiner.create_accumulator()
        for record in batch:
            element = types.SimpleNamespace(features=record)
            accumulator = combiner.add_input(accumulator, element)
        accumulators.append(accumulator)
    found = combiner.extract_output(combiner.merge_accumulators(accumulators))
    return {key.name: value for key, value in found.items()}


def test_the_order_of_records_does_not_matter():
    """Beam's differs from run to run; the bootstrap draws by position."""
    found = records()
    expected = combine([found])
    shuffled = random.Random(6).sample(found, len(found))
    assert combine([shuffled[:7], [], shuffled[7:]]) == expected
    right = sum(record["label_index"] == record["prediction_index"] for record in found)
    assert expected["example_count"] == 60
    assert expected["accuracy"] == pytest.approx(float(right[0]) / 60)
    assert expected["macro_f1_low_95"] < expected["macro_f1"] < expected["macro_f1_high_95"]
