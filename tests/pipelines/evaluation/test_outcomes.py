"""What predictions are scored by: metrics, constant answers, intervals, bounds and thresholds."""

import math
import random
import re
import types

import numpy as np
import pytest
import scipy.stats
from tensorflow_model_analysis.proto import validation_result_pb2

from beambert.errors import InputError
from beambert.pipelines.evaluation import measures
from beambert.pipelines.evaluation.measures import (
    Measures,
    Requirement,
    Threshold,
    constant_answers,
)
from beambert.pipelines.evaluation.report import worst_mistakes
from beambert.pipelines.evaluation.tfma_metric import _ScoreRecords
from beambert.pipelines.tasks.classification import ClassOutcomes
from beambert.pipelines.tasks.declarations import KINDS
from beambert.pipelines.tasks.regression import NumberOutcomes, RelevanceOutcomes
from beambert.pipelines.tasks.span import AnswerOutcomes
from beambert.pipelines.tasks.tagging import TagOutcomes
from beambert.pipelines.tasks.vectors import VectorExample

POSITIVE = 1


def best_constants(outcomes, names, labels=("0", "1")):
    """Returns metric -> answer, score."""
    found = constant_answers(outcomes, Measures("", tuple(names), POSITIVE), labels)
    return {name: (one["answer"], one["score"]) for name, one in found.items()}


def test_constant_answers_of_classes():
    """Accuracy, F1, correlation and cross entropy of what knows the labels' shares alone."""
    labels = np.array([0, 0, 0, 1])
    found = ClassOutcomes(labels, labels, np.eye(2)[labels])
    names = ["accuracy", "f1", "matthews_correlation", "cross_entropy"]
    best = best_constants(found, names)
    assert best["accuracy"] == ("0", 0.75)
    assert best["f1"] == ("1", pytest.approx(2 * 1 / (1 + 4)))
    assert best["matthews_correlation"][1] == 0
    assert best["cross_entropy"][1] == pytest.approx(scipy.stats.entropy([0.75, 0.25]))


def test_metrics_of_several_classes_need_several():
    """F1, its mean and the correlation say nothing about examples of one class."""
    labels, predictions = np.array([1, 1, 0]), np.array([1, 0, 0])
    found = ClassOutcomes(labels, predictions, np.eye(2)[predictions])
    assert found.undefined() == frozenset()
    of_one = found.take(np.array([0, 1, 1]))
    assert len(of_one) == 3 and of_one.predictions.tolist() == [1, 0, 0]
    assert of_one.undefined() == {"f1", "macro_f1", "matthews_correlation"}


def test_constant_answers_of_the_other_kinds():
    """The mean number, O for every word, no answer."""
    labels = np.random.default_rng(1).uniform(0, 5, 150)
    numbers = NumberOutcomes(labels, labels + 1)
    best = best_constants(numbers, ["pearson", "mean_squared_error"])
    assert best["pearson"][1] == 0
    assert best["mean_squared_error"][0] == pytest.approx(labels.mean(), abs=1e-6)
    assert best["mean_squared_error"][1] == pytest.approx(labels.var())
    records = [{"tags": [b"O", b"B-x", b"O", b"O"], "predicted_tags": [b"B-x"] * 4}]
    tags = TagOutcomes.of_records(records)
    best = best_constants(tags, ["entity_f1", "accuracy"])
    assert best == {"entity_f1": ("O", 0), "accuracy": ("O", 0.75)}
    answers = AnswerOutcomes(np.zeros(4), np.zeros(4), np.array([1, 0, 0, 0]))
    best = best_constants(answers, ["squad_f1"])
    assert best == {"squad_f1": ("no answer", 0.25)}


@pytest.mark.parametrize(
    ("kind", "metric"),
    [("span", "squad_f1"), ("regression", "mean_squared_error"), ("regression", "pearson")],
)
def test_scores_are_the_same_from_tfma_as_from_the_records(kind, metric):
    """TFMA's features are float32 arrays; a constant answer must not seem better by rounding."""
    generator = np.random.default_rng(8)
    written = [
        {"squad_f1": x, "exact_match": x, "number": x, "score": y}
        for x, y in generator.random((2000, 2)).astype(np.float32)
    ]
    lists, arrays = (
        KINDS[kind].OUTCOMES.of_records(
            [{"impossible": [0]} | {name: one(x) for name, x in each.items()} for each in written]
        )
        for one in (lambda x: [float(x)], lambda x: np.array([x]))
    )
    assert arrays.scores([metric], POSITIVE) == lists.scores([metric], POSITIVE)


def test_constant_outcomes_of_tags_and_classes():
    """As many examples, with O as right as it is; every class has the shares of all."""
    records = [
        {"tags": ["B-x", "O", "O"], "predicted_tags": ["O", "B-y", "O"]},
        {"tags": ["B-y"], "predicted_tags": ["B-y"]},
    ]
    ((answer, constant),) = TagOutcomes.of_records(records).constants()
    assert answer == "O" and len(constant) == 2
    by_type = constant.details([])["by_type"]
    counts = {
        name: [one[key] for key in ("true", "predicted", "correct")]
        for name, one in by_type.items()
    }
    assert counts == {"x": [1, 0, 0], "y": [1, 0, 0]}
    assert constant.scores(["accuracy"], POSITIVE) == {"accuracy": 0.5}
    labels = np.array([0, 2, 2, 2])
    classes = ClassOutcomes(labels, labels, np.eye(3)[labels]).constants()
    assert [answer for answer, _ in classes] == [0, 1, 2]
    for answer, constant in classes:
        assert constant.predictions.tolist() == [answer] * 4
        assert constant.probabilities.tolist() == [[0.25, 0, 0.75]] * 4


def test_labels_of_words_that_are_no_entities_have_accuracy_alone():
    """On either side: parts of speech, or a tag that the model made up."""
    for true, predicted in ((["NOUN", "O"], ["O", "O"]), (["O", "O"], ["NOUN", "O"])):
        found = TagOutcomes.of_records([{"tags": true, "predicted_tags": predicted}])
        assert found.types == ()
        assert found.scores(["accuracy"], POSITIVE) == {"accuracy": 0.5}


def test_a_similarity_is_judged_by_ranks():
    """Cosines in the order of their labels are right, though they are far from them."""
    examples = [VectorExample(str(i), "b", str(i // 2), {}) for i in range(6)]
    rows = [{"row": [i], "number": [float(i // 2)], "score": [i / 50]} for i in range(6)]
    assert worst_mistakes("similarity", rows, examples) == []
    # The second of the worst label has the greatest cosine: rank 6, where the label has 1 and 2.
    rows[1] |= {"score": [0.9]}
    found = worst_mistakes("similarity", rows, examples)
    assert [(one.row, one.weight) for one in found] == [(1, 4.0), (2, 1.0), (4, 1.0)]


def class_outcomes(count=200, classes=3, seed=0):
    """Returns outcomes of a fair classifier."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, count)
    logits = generator.normal(size=(count, classes)) + np.eye(classes)[labels]
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return ClassOutcomes(labels, probabilities.argmax(axis=1), probabilities)


def number_outcomes(count=150):
    """Returns outcomes of a fair regression."""
    generator = np.random.default_rng(1)
    labels = generator.uniform(0, 5, count)
    return NumberOutcomes(labels, labels + generator.normal(size=count))


def tag_outcomes(count=120):
    """Returns outcomes of sentences of a few words."""
    generator = np.random.default_rng(2)
    names = np.array([b"O", b"B-x", b"B-y"])

    def sentence():
        words = generator.integers(3, 9)
        tags = names[generator.choice(3, words, p=[0.6, 0.2, 0.2])]
        others = names[generator.choice(3, words, p=[0.6, 0.2, 0.2])]
        return {
            "tags": tags.tolist(),
            "predicted_tags": np.where(generator.random(words) < 0.7, tags, others).tolist(),
        }

    return TagOutcomes.of_records([sentence() for _ in range(count)])


CASES = [
    (class_outcomes(), "macro_f1"),
    (class_outcomes(), "matthews_correlation"),
    (class_outcomes(), "cross_entropy"),
    (number_outcomes(), "pearson"),
    (number_outcomes(), "mean_squared_error"),
    (tag_outcomes(), "entity_f1"),
    (tag_outcomes(), "accuracy"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("found", "name"), CASES)
def test_intervals_equal_scipys_bootstrap(found, name):
    """SciPy draws otherwise, so that ends differ by the noise of 1,000 draws."""
    expected = scipy.stats.bootstrap(
        (np.arange(len(found)),),
        lambda rows: found.take(rows).scores([name], POSITIVE)[name],
        n_resamples=2000,
        vectorized=False,
        method="percentile",
        rng=np.random.default_rng(3),
    )
    low, high = measures.intervals(found, [name], POSITIVE)[name]
    # The standard error of a 2.5 % percentile of 1,000 normal draws is 0.084 of their deviation.
    tolerance = 4 * 0.1 * expected.standard_error
    assert low == pytest.approx(expected.confidence_interval.low, abs=tolerance)
    assert high == pytest.approx(expected.confidence_interval.high, abs=tolerance)
    assert low < found.scores([name], POSITIVE)[name] < high


def test_shares_of_examples_have_wilson_intervals():
    """The closed form's roots: |share - p| = z sqrt(p (1 - p) / n) at both ends."""
    for correct, count in ((7, 10), (0, 5), (5, 5), (812, 872)):
        right = np.arange(count) < correct
        score = right.astype(float)
        answers = AnswerOutcomes(score, score, right * 0)
        for end in measures.intervals(answers, ["exact_match"], POSITIVE)["exact_match"]:
            distance = abs(correct / count - end)
            assert distance == pytest.approx(
                1.959964 * math.sqrt(end * (1 - end) / count + 1e-18), abs=1e-8
            )


def test_changes_are_of_the_same_draws():
    """A model that is right where the other is, and in 20 more of 200, is surely better."""
    old = class_outcomes()
    wrong = np.flatnonzero(old.labels != old.predictions)[:20]
    predictions = old.predictions.copy()
    predictions[wrong] = old.labels[wrong]
    new = ClassOutcomes(old.labels, predictions, old.probabilities)
    low, high = measures.change_interval(old, new, "accuracy", (1, 1))
    # The change is the mean of 20 ones and 180 zeros.
    expected = scipy.stats.binom.ppf([0.025, 0.975], 200, 0.1) / 200
    assert [low, high] == pytest.approx(expected, abs=0.0101)
    assert measures.change_interval(old, old, "accuracy", (1, 1)) == (0, 0)


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_shares_as_newcombe_published_them(right, count, low, high):
    """Newcombe (1998), "Two-sided confidence intervals for the single proportion", method 3."""
    found = measures.wilson_interval(right / count, count)
    assert found == pytest.approx((low, high), abs=5.1e-5)


def test_the_class_that_f1_is_of_may_have_another_number_in_each_model():
    """Two models that say the same with their classes in another order differ by nothing."""
    old = class_outcomes(classes=2)
    new = ClassOutcomes(1 - old.labels, 1 - old.predictions, old.probabilities[:, ::-1])
    assert measures.change_interval(old, new, "f1", (1, 0)) == (0, 0)
    assert measures.change_interval(old, new, "f1", (0, 1)) == (0, 0)


def test_a_slice_without_a_relevant_candidate_has_no_interval():
    """Its queries are left out, so that it has no outcomes, and its scores say nothing."""
    records = [{"query_id": [i // 2], "number": [0.0], "score": [i / 4]} for i in range(4)]
    found = RelevanceOutcomes.of_records(records)
    assert len(found) == 0
    assert measures.intervals(found, ["ndcg_at_10"], POSITIVE) == {"ndcg_at_10": (0, 0)}
    assert found.undefined() == {"ndcg_at_10", "mrr_at_10"}


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
    combiner = _ScoreRecords("classification", ("accuracy", "macro_f1"), 1)
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


def side(requirement):
    """Returns which bound TFMA gets, and its value."""
    bound = requirement.to_tfma()
    name = next(name for name in ("lower_bound", "upper_bound") if bound.HasField(name))
    return name, getattr(bound, name).value


def test_bounds_are_below_what_is_good():
    """More accuracy, less cross entropy; the strict bound itself is not enough."""
    for strict, relation in ((False, "at least"), (True, "more than")):
        requirement = Requirement("accuracy", 0.7, strict)
        name, value = side(requirement)
        assert (requirement.relation, name) == (relation, "lower_bound")
        assert (value <= 0.7) is not strict
        assert value <= 0.7 + 1e-9 and not value <= 0.7 - 1e-9
    for strict, relation in ((False, "at most"), (True, "less than")):
        requirement = Requirement("cross_entropy", 0.7, strict)
        name, value = side(requirement)
        assert (requirement.relation, name) == (relation, "upper_bound")
        assert (value >= 0.7) is not strict
        assert value >= 0.7 - 1e-9 and not value >= 0.7 + 1e-9


def test_a_baseline_and_a_change_reach_their_sum():
    """0.1 + 0.2 is more than 0.3 in binary; and an error must shrink."""
    requirement = measures.of_baseline("f1", 0.1, 0.2)
    assert 0.3 >= side(requirement)[1] > 0.3 - 1e-9
    assert requirement.meaning == ", the baseline's 0.1000 plus 0.2"
    requirement = measures.of_baseline("mean_squared_error", 1.5, 0.25)
    assert (requirement.threshold, requirement.relation) == (1.25, "at most")
    assert measures.of_baseline("f1", 0.5, 0).meaning == ", the baseline's 0.5000"
    assert measures.of_baseline("f1", 0.5, -0.1).meaning == ", the baseline's 0.5000 less 0.1"


def test_a_failure_is_of_its_own_bound():
    """Of two bounds on a metric one may fail; and another metric may fail the same bound."""
    low, high, other = (
        Requirement(*each) for each in (("f1", 0.5), ("f1", 0.7), ("accuracy", 0.7))
    )
    failure = validation_result_pb2.ValidationFailure()
    failure.metric_key.name = "f1"
    failure.metric_threshold.value_threshold.CopyFrom(high.to_tfma())
    passed = [one.verdict(0.6, [failure])["passed"] for one in (low, high, other)]
    assert passed == [True, False, True]
    assert high.verdict(0.6, [failure])["reason"] == "F1 0.6000 is not at least 0.7000"


@pytest.mark.parametrize(
    ("metric", "value", "message"),
    [
        ("f1", None, "--metric=f1: not a metric of this task; choose one of pearson, mean"),
        ("pearson", 1.5, "--threshold=1.5: cannot be reached by pearson; give a number from -1 to"),
        ("mean_squared_error", -1, "by mean_squared_error; give a number from 0 up"),
        ("pearson", float("nan"), "--threshold=nan: cannot be reached by pearson"),
    ],
)
def test_thresholds_out_of_reach_are_refused(metric, value, message):
    """Before anything is computed."""
    with pytest.raises(InputError, match=re.escape(message)):
        measures.check_thresholds([Threshold(metric, value)], ["pearson", "mean_squared_error"])


def test_thresholds_within_reach_pass():
    """A correlation may be negative, an error may be large."""
    names = ["pearson", "mean_squared_error"]
    thresholds = [Threshold("pearson", -0.5), Threshold("mean_squared_error", 100.0)]
    thresholds += [Threshold("pearson", end) for end in (-1, 1)]
    measures.check_thresholds(thresholds, names)
    constants = {"pearson": {"answer": 2.5, "score": 0.0}}
    (requirement,) = measures.of_thresholds([Threshold("pearson")], constants)
    assert requirement == Requirement("pearson", 0.0, True, ", which always answering 2.5 gives")
