"""Bounds that a model must reach; TFMA's check of them is tested with the command."""

import re

import pytest
from tensorflow_model_analysis.proto import validation_result_pb2

from beambert.errors import InputError
from beambert.pipelines.evaluation import blessing
from beambert.pipelines.evaluation.blessing import Requirement, Threshold


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
    requirement = blessing.of_baseline("f1", 0.1, 0.2)
    assert 0.3 >= side(requirement)[1] > 0.3 - 1e-9
    assert requirement.meaning == ", the baseline's 0.1000 plus 0.2"
    requirement = blessing.of_baseline("mean_squared_error", 1.5, 0.25)
    assert (requirement.threshold, requirement.relation) == (1.25, "at most")
    assert blessing.of_baseline("f1", 0.5, 0).meaning == ", the baseline's 0.5000"
    assert blessing.of_baseline("f1", 0.5, -0.1).meaning == ", the baseline's 0.5000 less 0.1"


def test_a_narrow_miss_is_told_apart():
    """Not "0.9123 is not at least 0.9123"."""
    requirement = Requirement("f1", 0.912345)
    assert requirement.verdict(0.91234, [])["reason"] == "F1 0.912340 is at least 0.912345"
    assert requirement.verdict(0.95, [])["reason"] == "F1 0.9500 is at least 0.9123"
    assert requirement.verdict(0.9123451, [])["reason"] == "F1 0.9123 is at least 0.9123"


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


def test_a_bound_is_written_to_six_places():
    """Of a constant answer's score, say, without the digits of its arithmetic."""
    assert Requirement("f1", 0.1 + 0.2).verdict(0.5, [])["threshold"] == 0.3
    assert Requirement("f1", 2 / 3).verdict(0.7, [])["threshold"] == 0.666667


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
        blessing.check_thresholds([Threshold(metric, value)], ["pearson", "mean_squared_error"])


def test_thresholds_within_reach_pass():
    """A correlation may be negative, an error may be large."""
    names = ["pearson", "mean_squared_error"]
    thresholds = [Threshold("pearson", -0.5), Threshold("mean_squared_error", 100.0)]
    thresholds += [Threshold("pearson", end) for end in (-1, 1)]
    blessing.check_thresholds(thresholds, names)
    constants = {"pearson": {"answer": 2.5, "score": 0.0}}
    (requirement,) = blessing.of_thresholds([Threshold("pearson")], constants)
    assert requirement == Requirement("pearson", 0.0, True, ", which always answering 2.5 gives")
