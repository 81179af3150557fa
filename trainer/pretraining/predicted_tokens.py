"""The tokens that held-out records ask for: how common they are, and how many characters they have.

A loss per token compares only encoders of one vocabulary, since the tokens of another one are of
other lengths. Per character it compares those of others, too.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from beambert.trainer.pretraining.batches import evaluation_batches
from beambert.trainer.pretraining.records import Records

CHARACTERS, LOSS_PER_CHARACTER = "characters_per_token", "masked_lm_loss_per_character"
# Records that are read at once.
_BATCH_SIZE = 4096


def predicted_tokens(records: Records) -> np.ndarray:
    """Returns how often each token is to be predicted, int64 [tokens of the vocabulary]."""
    counts = np.zeros(len(records.vocabulary), np.int64)
    for features in evaluation_batches(records, _BATCH_SIZE):
        ids, weights = features["masked_lm_ids"].numpy(), features["masked_lm_weights"].numpy()
        counts += np.bincount(ids[weights > 0], minlength=len(counts))
    return counts


def commonest_token_accuracy(predicted: Mapping[str, np.ndarray]) -> float:
    """Returns the share of the predictions whose label is the commonest one.

    It is the best accuracy without looking at the text, so a masked LM has to beat it.

    Args:
      predicted: name of the source -> see `predicted_tokens`.
    """
    counts = sum(predicted.values())
    return float(counts.max() / max(counts.sum(), 1))


def losses_per_character(
    results: Mapping[str, float], predicted: Mapping[str, np.ndarray], characters: np.ndarray
) -> dict[str, float]:
    """Returns the masked LM losses in nats for each character, and the characters of a token.

    The sum of the losses of all predictions is divided by the characters of their tokens.

    Args:
      results: metrics of the held-out data; those of a source as "NAME/metric".
      predicted: name of the source -> see `predicted_tokens`; "" is the name of all text.
      characters: number of characters of each token, int [tokens].
    """
    found = {}
    named = {f"{name}/": counts for name, counts in predicted.items() if name}
    for prefix, counts in {"": sum(predicted.values()), **named}.items():
        of_all = int(counts @ characters)
        if not of_all:
            continue
        found[prefix + CHARACTERS] = of_all / int(counts.sum())
        loss = results[f"{prefix}masked_lm_loss"]
        found[prefix + LOSS_PER_CHARACTER] = loss / found[prefix + CHARACTERS]
    return found


def describe_characters(results: Mapping[str, float], names: Iterable[str]) -> str:
    """Returns the line that tells the losses per character of all held-out data and each source.

    Args:
      results: see `losses_per_character`.
      names: names of the sources.
    """

    def told(prefix: str) -> str:
        return (
            f"{results[prefix + LOSS_PER_CHARACTER]:.3f} "
            f"({results[prefix + CHARACTERS]:.2f} characters a token)"
        )

    if CHARACTERS not in results:
        return "masked lm loss per character: none, as no token that is predicted has one"
    parts = [f"{name} {told(name + '/')}" for name in names if f"{name}/{CHARACTERS}" in results]
    return "; ".join([f"masked lm loss per character: {told('')}", *parts])
