"""The placeholders of deploy/retrain.toml, which a deployment fills in.

The patterns are such that no value of Google Cloud matches them: its names have no capital letters.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from beambert.errors import InputError

_PLACEHOLDER = re.compile(
    r"(?:gs://|/gcs/)(BUCKET)\b|\bregions/(REGION)\b|@(PROJECT)\."
    r"|^(PROJECT|REGION|BEAM_IMAGE|KMS_KEY)$"
)


def check_filled_in(found: Mapping[str, Any]) -> None:
    """Refuses a configuration in which a placeholder stands as it was shipped.

    Args:
      found: content of the configuration file.

    Raises:
      InputError: there is a placeholder; the message names its key.
    """
    for key, text in _texts("", found):
        placeholder = _PLACEHOLDER.search(text)
        if placeholder:
            raise InputError(
                f"{key} = {text}: has the placeholder {placeholder[placeholder.lastindex]}; write "
                "a value of your own, or leave out what only Dataflow needs; `python -m "
                "beambert.deploy.vertex deploy` fills in those of a cloud project"
            )


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yields the dotted key and the text of each text in a value, also in lists and tables."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(key, each)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _texts(f"{key}.{name}" if key else name, each)
