"""The tokens that held-out records ask for, and the loss of each of their characters."""

import numpy as np
import pytest

from beambert.trainer.pretraining.run import (
    commonest_token_accuracy,
    describe_characters,
    losses_per_character,
)

# Three tokens: a special one, one of two characters and one of five.
CHARACTERS = np.array([0, 2, 5])
PREDICTED = {"wiki": np.array([0, 30, 10]), "law": np.array([0, 10, 50])}
RESULTS = {"masked_lm_loss": 3.0, "wiki/masked_lm_loss": 2.0, "law/masked_lm_loss": 4.0}


def test_the_losses_of_all_predictions_over_all_their_characters():
    found = losses_per_character(RESULTS, PREDICTED, CHARACTERS)
    assert found == pytest.approx(
        {
            "characters_per_token": (110 + 270) / 100,
            "masked_lm_loss_per_character": 3.0 * 100 / (110 + 270),
            "wiki/characters_per_token": 110 / 40,
            "wiki/masked_lm_loss_per_character": 2.0 * 40 / 110,
            "law/characters_per_token": 270 / 60,
            "law/masked_lm_loss_per_character": 4.0 * 60 / 270,
        }
    )
    line = describe_characters(found, PREDICTED)
    assert line.startswith("masked lm loss per character: 0.789 (3.80 characters a token); wiki ")
    assert line.endswith("; law 0.889 (4.50 characters a token)")


def test_text_without_sources_and_text_without_predictions():
    found = losses_per_character(RESULTS, {"": PREDICTED["wiki"]}, CHARACTERS)
    assert found.keys() == {"characters_per_token", "masked_lm_loss_per_character"}
    assert losses_per_character(RESULTS, {"": np.zeros(3, np.int64)}, CHARACTERS) == {}
    assert "none, as no token" in describe_characters({}, [""])


def test_the_commonest_token_of_all_sources():
    assert commonest_token_accuracy(PREDICTED) == 0.6
    assert commonest_token_accuracy({"": np.zeros(3, np.int64)}) == 0
