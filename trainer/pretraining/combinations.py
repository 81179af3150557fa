"""Which values of a pre-training exclude each other."""

from typing import Any

from beambert.errors import InputError
from beambert.model.objectives import RTD
from beambert.trainer.weights.new_tokens import PIECES
from beambert.trainer.weights.positions import KEEP


def check_combinations(given: Any) -> None:
    """Refuses shares out of range, and values that need or exclude another.

    Args:
      given: parsed flags or a `PretrainingJob`, whose attributes are checked.

    Raises:
      InputError: a value cannot be used, or not beside another.
    """
    if given.init:
        _check_beside_init(given)
    else:
        for name, default in (("init_positions", KEEP), ("init_tokens", PIECES)):
            if (value := getattr(given, name)) != default:
                raise InputError(f"--{name}={value}: needs --init; leave it out")
    if given.generator_size is not None and given.objective != RTD:
        raise InputError(
            f"--generator_size={given.generator_size}: needs --objective={RTD}; leave it out"
        )
    if not 0 < given.long_data_share < 1:
        raise InputError(f"--long_data_share={given.long_data_share}: must be in (0, 1)")
    if not 0 <= given.batch_ramp_share < 1:
        raise InputError(
            f"--batch_ramp_share={given.batch_ramp_share}: must be at least 0 and less than 1"
        )
    if given.finish is not None and given.extend is not None:
        raise InputError(f"--extend={given.extend}: excludes --finish; leave one of them out")
    if given.finish is not None and not 0 <= given.finish < 1:
        raise InputError(f"--finish={given.finish}: must be at least 0 and less than 1")


def _check_beside_init(given: Any) -> None:
    for name in ("model", "family"):
        if value := getattr(given, name):
            raise InputError(
                f"--{name}={value}: --init already sets the {name}; leave one of them out"
            )
    if given.initializer_range is not None:
        raise InputError(
            f"--initializer_range={given.initializer_range}: the weights are those of --init; "
            "leave it out"
        )
