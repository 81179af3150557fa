"""The folder that transformers has written of a small BertForPreTraining."""

import pathlib

from beambert.model.pretrainer import BertPretrainer
from beambert.trainer.weights.initial import open_initial

GOLDEN = pathlib.Path(__file__).parents[1] / "trainer" / "golden_families" / "bert"


def load(path) -> BertPretrainer:
    initial = open_initial(str(path), "--init")
    model = BertPretrainer(initial.config, seed=9)
    assert initial.load_into(model, "--init") == []
    return model
