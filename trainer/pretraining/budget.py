"""The budget of a pre-training, which takes the place of a number of steps."""

import dataclasses
import re

from beambert.errors import InputError

# Loading and compiling take most of a shorter time.
LEAST_SECONDS = 15.0
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_OPERATIONS = "flops"


@dataclasses.dataclass(frozen=True)
class Budget:
    """What a training may take; one of the two is None.

    Attributes:
      seconds: time from the beginning to the finished model, whatever is done in it.
      operations: floating-point operations of all updates, see `model.flops`.
    """

    seconds: float | None = None
    operations: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """Returns the budget that a text such as "30min", "6h" or "1e17flops" names.

        Raises:
          InputError: the text names none.
        """
        units = (*_SECONDS, _OPERATIONS)
        found = re.fullmatch(rf"(\d+(?:\.\d*)?(?:e\+?\d\d?)?)({'|'.join(units)})", text)
        amount = float(found[1]) if found else 0.0
        if not amount:
            raise InputError(
                f"--budget={text}: must be a time or a number of operations, such as 90s, 30min, "
                "6h, 2d or 1e17flops"
            )
        if found[2] == _OPERATIONS:
            return cls(operations=amount)
        seconds = amount * _SECONDS[found[2]]
        if seconds < LEAST_SECONDS:
            raise InputError(f"--budget={text}: must be at least {LEAST_SECONDS:g}s")
        return cls(seconds=seconds)
