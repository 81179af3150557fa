"""Shares of the sources -> the number of passes over each. Pure.

A share is one of the tokens of the records, special tokens and padding not counted. So the size of
a source is the number of tokens that one pass over it gives the records: long documents give more
than short ones. The records have as many tokens as without shares.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from beambert.errors import InputError

# Weights add up to 1 within so much, for those that are written with few digits.
_TOLERANCE = 1e-6


class Amount(NamedTuple):
    """How much of a source there is in the records.

    Attributes:
      passes: greatest number of passes over it; None for any.
      record_tokens_a_token: number of tokens of the records for each token of its documents.
    """

    passes: int | None
    record_tokens_a_token: float = math.inf


@dataclasses.dataclass(frozen=True)
class SourceSizes:
    """Sizes of the sources; they add up over shards.

    Attributes:
      text: int64 [sources], number of tokens of the documents.
      records: int64 [lengths, sources], number of tokens that one pass gives the records.
    """

    text: np.ndarray
    records: np.ndarray

    def __add__(self, other: "SourceSizes") -> "SourceSizes":
        """Returns the sizes of both."""
        return SourceSizes(self.text + other.text, self.records + other.records)


@dataclasses.dataclass(frozen=True)
class Mixture:
    """How the sources of a corpus are mixed.

    Attributes:
      names: names of the sources.
      weights: name -> share of the tokens; empty for shares that follow from the sizes.
      temperature: exponent of the sizes that the shares are proportional to, from 0 to 1. None, as
        1, leaves the sources as they are. It is S = 0.7 of multilingual BERT
        (google-research/bert, multilingual.md), alpha = 0.5 of XLM (arXiv 1901.07291, section 3.1)
        and alpha = 0.3 of XLM-R (arXiv 1911.02116, section 3.1).
      max_epochs: greatest number of passes over a source; None for any.
    """

    names: Sequence[str]
    weights: Mapping[str, float] = dataclasses.field(default_factory=dict)
    temperature: float | None = None
    max_epochs: float | None = None

    @property
    def needs_sizes(self) -> bool:
        """Whether the number of passes depends on the sizes of the sources."""
        return bool(self.weights) or self.temperature is not None

    def shares(self, sizes: Sequence[int]) -> list[float]:
        """Returns the share that is asked for of each source.

        Args:
          sizes: tokens that one pass over each source gives the records.

        Raises:
          InputError: a source has no token.
        """
        self.check_sizes(sizes)
        if self.weights:
            return [self.weights[name] for name in self.names]
        exponent = 1.0 if self.temperature is None else self.temperature
        powers = [size**exponent for size in sizes]
        return [power / math.fsum(powers) for power in powers]

    def check_sizes(self, sizes: Sequence[int]) -> None:
        """Refuses a source without a token.

        Raises:
          InputError: there is one.
        """
        for name, size in zip(self.names, sizes, strict=True):
            if not size:
                raise InputError(
                    f"--source={name}: no document of it gave an instance; check its files and the "
                    "flags that leave documents out, or leave it out"
                )

    def passes(self, sizes: Sequence[int], dupe_factor: int) -> list[float]:
        """Returns the number of passes over each source.

        What a source with too many passes cannot give, the others do, by their shares.

        Args:
          sizes: tokens that one pass over each source gives the records.
          dupe_factor: number of passes over a corpus whose sources are not weighted.

        Raises:
          InputError: a source has no token.
        """
        if not self.needs_sizes:
            return [float(dupe_factor)] * len(self.names)
        shares, most = self.shares(sizes), self.max_epochs or math.inf
        passes = [0.0] * len(sizes)
        left, free = dupe_factor * sum(sizes), set(range(len(sizes)))
        while free:
            of_free = math.fsum(shares[i] for i in free)
            for i in free:
                passes[i] = left * shares[i] / of_free / sizes[i]
            too_many = {i for i in free if passes[i] > most}
            if not too_many:
                break
            for i in too_many:
                passes[i] = float(most)
            left -= most * sum(sizes[i] for i in too_many)
            free -= too_many
        return passes

    def amounts(self, sizes: SourceSizes | None, length: int, dupe_factor: int) -> list[Amount]:
        """Returns how much of each source there is in the records of a length.

        Args:
          sizes: sizes of the sources; None where they are not needed.
          length: index of the length.
          dupe_factor: see `passes`.

        Raises:
          InputError: a source has no token.
        """
        if sizes is None:
            return [Amount(dupe_factor)] * len(self.names)
        of_length = sizes.records[length].tolist()
        most = math.ceil(self.max_epochs) if self.max_epochs else None
        return [
            Amount(most, number * size / text)
            for number, size, text in zip(
                self.passes(of_length, dupe_factor), of_length, sizes.text.tolist(), strict=True
            )
        ]


def parse_weights(text: str, names: Sequence[str]) -> dict[str, float]:
    """Returns name -> weight of a value such as "wiki=0.7,books=0.3"; none of an empty one.

    Raises:
      InputError: a weight is no number above 0, its name is none of the names or is there twice, a
        name has no weight, or the weights do not add up to 1.
    """
    weights: dict[str, float] = {}
    for item in text.split(",") if text else ():
        name, _, number = item.partition("=")
        if not names:
            raise InputError(f"--weights={item}: needs --source, which names the text of {name}")
        if name not in names:
            raise InputError(
                f"--weights={item}: there is no --source={name}; name one of {', '.join(names)}"
            )
        if name in weights:
            raise InputError(f"--weights: names {name} twice; name each source once")
        try:
            weights[name] = float(number)
        except ValueError as error:
            raise InputError(f"--weights={item}: must be a name, = and a number") from error
        if not 0 < weights[name] < math.inf:
            raise InputError(
                f"--weights={item}: must be more than 0; leave out the --source to leave out its "
                "text"
            )
    if missing := [name for name in names if weights and name not in weights]:
        raise InputError(
            f"--weights={text}: lacks {', '.join(missing)}; give each --source a weight"
        )
    total = math.fsum(weights.values())
    if weights and abs(total - 1) > _TOLERANCE:
        raise InputError(f"--weights={text}: they add up to {total:g}, but must add up to 1")
    return weights
