"""Class weights against scikit-learn's and PyTorch's rules."""

import numpy as np
import pytest

from beambert.errors import InputError
from beambert.pipelines.tasks.classification import loss_weights


def test_balanced_weights_are_those_of_scikit_learn():
    """Its compute_class_weight("balanced", …) gives 0.625, 1.25 and 1.66666667 here."""
    label_ids = np.array([0] * 8 + [1] * 4 + [3] * 3)
    weights = loss_weights("balanced", ["a", "b", "never", "d"], label_ids)
    expected = [0.625] * 8 + [1.25] * 4 + [1.66666667] * 3
    np.testing.assert_allclose(weights, expected, rtol=1e-6)
    assert weights.dtype == np.float32
    assert weights.mean() == pytest.approx(1)


def test_balanced_weights_of_several_labels_are_those_of_the_rarer_side():
    """PyTorch's example: 100 positive and 300 negative examples have the weight 3."""
    label_ids = np.zeros((400, 2), np.float32)
    label_ids[:100, 0] = 1
    weights = loss_weights("balanced", ["a", "never"], label_ids)
    assert weights.shape == label_ids.shape
    assert set(weights[:100, 0]) == {3.0}
    assert set(weights[100:, 0]) == set(weights[:, 1]) == {1.0}


def test_weights_by_label():
    weights = loss_weights({"b": 4.0}, ["a", "b"], np.array([0, 1, 1]))
    assert weights.tolist() == [1, 4, 4]
    with pytest.raises(InputError, match="--class_weights: 'c' is not a label of the training"):
        loss_weights({"c": 4.0}, ["a", "b"], np.array([0, 1, 1]))
