"""Makes golden/multi_label.json with scikit-learn, which the tests do not need.

python tests/golden/make_golden_multi_label.py
"""

import json
import pathlib

import numpy as np
import sklearn.metrics

GOLDEN = pathlib.Path(__file__).parent


def case(generator, examples, shares):
    """Returns labels and probabilities and what scikit-learn says of them."""
    labels = generator.random((examples, len(shares))) < shares
    noise = generator.normal(size=labels.shape)
    probabilities = (1 / (1 + np.exp(-(2 * labels - 1 + 1.2 * noise)))).round(6)
    predictions = probabilities > 0.5
    precision, recall, f1, support = sklearn.metrics.precision_recall_fscore_support(
        labels, predictions, average=None, zero_division=0
    )
    micro, macro = (
        sklearn.metrics.f1_score(labels, predictions, average=average, zero_division=0)
        for average in ("micro", "macro")
    )
    losses = [
        sklearn.metrics.log_loss(labels[:, i], probabilities[:, i], labels=[False, True])
        for i in range(len(shares))
    ]
    return {
        "labels": labels.astype(int).tolist(),
        "probabilities": probabilities.tolist(),
        "scores": {
            "micro_f1": float(micro),
            "macro_f1": float(macro),
            "exact_match": float(sklearn.metrics.accuracy_score(labels, predictions)),
            "cross_entropy": float(np.mean(losses)),
        },
        "precision": precision.tolist(),
        "recall": recall.tolist(),
        "f1": f1.tolist(),
        "support": support.tolist(),
    }


def main():
    """Writes the file."""
    generator = np.random.default_rng(7)
    # The last case has a label that never applies and one that always does.
    shares = [[0.5, 0.5], [0.3, 0.1, 0.6], [0.02, 0.4, 0.1, 0.9, 0.2], [0.0, 1.0, 0.3]]
    cases = [case(generator, 40, np.array(share)) for share in shares]
    (GOLDEN / "multi_label.json").write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    main()
