"""The settings of a training, as services and comparisons show them."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings in one level: `loop.dtype` for "dtype" in "loop".

    Args:
      settings: settings such as those of training.json. In place of the SHA-256 sums of files stand
        the first twelve digits of a sum over them.
      prefix: text before each name.
    """
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if name.endswith("sha256") and value:
            flat[f"{prefix}{name}"] = hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]
        elif isinstance(value, Mapping):
            flat |= flat_settings(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            numbered = {str(number): entry for number, entry in enumerate(value)}
            flat |= flat_settings(numbered, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
