"""Makes golden/pairs_by_cosine.json with sentence-transformers, which the tests do not need.

python tests/golden/make_golden_pairs_by_cosine.py
"""

import json
import pathlib

import numpy as np
from sentence_transformers.sentence_transformer.evaluation import BinaryClassificationEvaluator
from sklearn.metrics import average_precision_score

GOLDEN = pathlib.Path(__file__).parent


def case(generator, pairs, share, noise, decimals):
    """Returns labels and cosines and what sentence-transformers says of them."""
    labels = (generator.random(pairs) < share).astype(int)
    labels[0] = 1
    cosines = np.tanh(labels - 0.5 + noise * generator.normal(size=pairs)).round(decimals)
    of_accuracy = BinaryClassificationEvaluator.find_best_acc_and_threshold(cosines, labels, True)
    of_f1 = BinaryClassificationEvaluator.find_best_f1_and_threshold(cosines, labels, True)
    names = ("accuracy", "accuracy_threshold", "f1", "precision", "recall", "f1_threshold")
    found = dict(zip(names, map(float, (*of_accuracy, *of_f1)), strict=True))
    found["average_precision"] = float(average_precision_score(labels, cosines))
    return {"labels": labels.tolist(), "cosines": cosines.tolist(), "scores": found}


def main():
    """Writes cases with good and bad cosines, rare and common pairs, and ties."""
    generator = np.random.default_rng(0)
    settings = [(60, 0.5, 0.5, 6), (60, 0.1, 2.0, 6), (80, 0.7, 1.0, 1), (5, 0.2, 9.0, 6)]
    settings += [(12, 1.1, 0.5, 6), (30, 0.05, 5.0, 1)]
    cases = [case(generator, *setting) for setting in settings]
    (GOLDEN / "pairs_by_cosine.json").write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    main()
