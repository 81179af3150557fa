"""The curves of trainings by updates, tokens, minutes or floating-point operations."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from beambert.explore.axes import FLOPS, TOKENS, UPDATES
from beambert.model.config import BertConfig
from beambert.model.flops import training_flops

if TYPE_CHECKING:
    from beambert.trainer.comparison.page import Curves
    from beambert.trainer.comparison.runs import ComparedRun


def curves_by(run: "ComparedRun", axis: str) -> "Curves":
    """Returns the curves of a training with another horizontal axis.

    Tokens and minutes are those that its rows of metrics.jsonl measured, added up. Where a training
    lacks what an axis needs, it has no curves there.

    Args:
      run: the training.
      axis: one of `axes.AXES`.
    """
    if axis == UPDATES:
        return run.curves
    at = _amounts(run, axis)
    if at is None:
        return {}
    steps, amounts = at
    return {
        each: (np.interp(own, steps, amounts), values) for each, (own, values) in run.curves.items()
    }


def _amounts(run: "ComparedRun", axis: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns updates, and the tokens, minutes or operations that they have taken in all."""
    if axis == FLOPS:
        each = flops_a_step(run.settings)
        steps = np.array([0, run.steps])
        return None if each is None else (steps, steps * each)
    steps, seconds = run.curves.get(("train", "seconds_per_step"), ((), ()))
    if not len(steps):
        return None
    each = np.asarray(seconds) / 60
    if axis == TOKENS:
        per_second = run.curves.get(("train", "tokens_per_second"))
        if per_second is None or len(per_second[1]) != len(steps):
            return None
        each = np.asarray(seconds) * per_second[1]
    taken = np.diff(steps, prepend=0)
    return np.concatenate(([0], steps)), np.concatenate(([0], np.cumsum(taken * each)))


def flops_a_step(settings: Mapping[str, object]) -> float | None:
    """Returns the operations of an update of a pre-training; None where they are not known.

    They are not known of a training on records of several lengths, of one with drawn masks, a
    generator or a teacher, of another family than BERT, or of a fine-tuned model.

    Args:
      settings: settings of the training in one level, see `ComparedRun`.
    """
    prefix = "encoder."
    encoder = {
        name.removeprefix(prefix): value
        for name, value in settings.items()
        if name.startswith(prefix)
    }
    names = ("loop.train_batch_size", "records.0.max_seq_length")
    predictions = settings.get("records.0.max_predictions_per_seq")
    if any(name not in settings for name in names) or predictions is None:
        return None
    others = ("records.1.", "mask_rate", "generator_size", "distill_from", f"{prefix}model_type")
    if any(name.startswith(others) for name in settings):
        return None
    batch, length = (settings[name] for name in names)
    return training_flops(BertConfig(**encoder), batch, length, predictions)


def shared_metrics(curves: "Sequence[Curves]") -> list[tuple[str, str]]:
    """Returns the (split, metric) of the curves, those of held-out data first."""
    every = dict.fromkeys(metric for each in curves for metric in each)
    return sorted(every, key=lambda metric: (metric[0] != "eval", metric))
