"""Makes golden/metrics.json and golden/entities.json with the libraries and the official script.

    python tests/golden/make_golden_metrics.py PATH_OF_conlleval.pl

Needs scikit-learn and seqeval, which the tests do not, and Perl. conlleval is the script of the
CoNLL-2000 shared task, version of 2004-01-26.
"""

import json
import pathlib
import random
import re
import subprocess
import sys

import numpy as np
import seqeval.metrics
import sklearn.metrics

GOLDEN = pathlib.Path(__file__).parent
CASES = 60


def classification_case(generator, classes, count):
    """Returns labels and probabilities and what scikit-learn says of them."""
    labels = generator.integers(0, classes, count)
    logits = generator.normal(size=(count, classes)) + 1.5 * np.eye(classes)[labels]
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    probabilities = probabilities.round(6)
    return describe(labels, probabilities.argmax(axis=1), probabilities)


def describe(labels, predictions, probabilities):
    """Returns a case as JSON."""
    classes = range(probabilities.shape[1])
    f1 = sklearn.metrics.f1_score
    scores = {
        "accuracy": sklearn.metrics.accuracy_score(labels, predictions),
        "macro_f1": f1(labels, predictions, average="macro", zero_division=0),
        "matthews_correlation": sklearn.metrics.matthews_corrcoef(labels, predictions),
        "cross_entropy": sklearn.metrics.log_loss(
            labels, probabilities / probabilities.sum(axis=1, keepdims=True), labels=classes
        ),
    }
    f1_of = {
        positive: f1(labels == positive, predictions == positive, zero_division=0)
        for positive in classes
    }
    return {
        "labels": labels.tolist(),
        "predictions": predictions.tolist(),
        "probabilities": probabilities.tolist(),
        "scores": {name: float(score) for name, score in scores.items()},
        "f1_of": {str(positive): float(score) for positive, score in f1_of.items()},
    }


def constant_cases():
    """Returns cases in which one side never changes."""
    two = np.array([0, 1, 1, 0])
    zeros, ones = np.zeros(4, int), np.ones(4, int)
    half = np.full((4, 2), 0.5)
    pairs = [(two, zeros), (two, ones), (zeros, two), (zeros, zeros), (ones, ones), (ones, zeros)]
    return [describe(labels, predictions, half) for labels, predictions in pairs]


def random_tags(generator):
    """Returns tags of one sentence in no proper scheme."""
    types = ["person", "group", "creative-work"]
    tags = ["O", *(f"{prefix}-{name}" for prefix in "BI" for name in types)]
    weights = [generator.choice([1, 3, 8]), *[1] * 6]
    return generator.choices(tags, weights, k=generator.randint(1, 12))


def changed(generator, tags):
    """Returns tags with some replaced, as a model would predict."""
    other = random_tags(generator) * 12
    share = generator.choice([0.0, 0.1, 0.3, 1.0])
    return [b if generator.random() < share else a for a, b in zip(tags, other, strict=False)]


def conlleval(script, true, predicted):
    """Returns the official counts and, in per cent to two places, the scores by type."""
    lines = "\n".join(
        "".join(f"w {a} {b}\n" for a, b in zip(*pair, strict=True))
        for pair in zip(true, predicted, strict=True)
    )
    output = subprocess.run(
        ["perl", script], input=lines, capture_output=True, text=True, check=True
    ).stdout
    counts = re.search(r"with (\d+) phrases; found: (\d+) phrases; correct: (\d+)", output)
    rows = re.findall(
        r"^ *(\S+): precision: +([\d.]+)%; recall: +([\d.]+)%; FB1: +([\d.]+)  (\d+)$",
        output,
        re.MULTILINE,
    )
    overall = re.search(r"precision: +([\d.]+)%; recall: +([\d.]+)%; FB1: +([\d.]+)$", output, re.M)
    return {
        "true_predicted_correct": [int(count) for count in counts.groups()],
        "percent": [float(score) for score in overall.groups()],
        "percent_by_type": {row[0]: [float(score) for score in row[1:4]] for row in rows},
    }


def entity_case(generator, script):
    """Returns sentences and what conlleval and seqeval say of them."""
    true = [random_tags(generator) for _ in range(generator.choice([1, 3, 8]))]
    predicted = [changed(generator, tags) for tags in true]
    report = seqeval.metrics.classification_report(
        true, predicted, output_dict=True, zero_division=0
    )
    return {
        "true": true,
        "predicted": predicted,
        "conlleval": conlleval(script, true, predicted),
        "seqeval": [
            seqeval.metrics.precision_score(true, predicted, zero_division=0),
            seqeval.metrics.recall_score(true, predicted, zero_division=0),
            float(seqeval.metrics.f1_score(true, predicted, zero_division=0)),
        ],
        "seqeval_by_type": {
            name: [float(report[name][key]) for key in ("precision", "recall", "f1-score")]
            for name in report
            if not name.endswith(" avg")
        },
    }


def main(script):
    """Writes the files."""
    numbers = np.random.default_rng(1)
    cases = [
        classification_case(numbers, classes, count)
        for classes in (2, 3, 7)
        for count in (1, 2, 5, 40)
    ]
    write("metrics.json", [*cases, *constant_cases()])
    generator = random.Random(1)
    write("entities.json", [entity_case(generator, script) for _ in range(CASES)])


def write(name, cases):
    """Writes one case a line."""
    lines = ",\n".join(json.dumps(case) for case in cases)
    (GOLDEN / name).write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
