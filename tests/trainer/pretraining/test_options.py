"""Gradient accumulation, number formats, and where a training writes."""

import dataclasses
import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from beambert.errors import InputError
from beambert.model.families.table import read_config
from beambert.model.pretrainer import BertPretrainer
from beambert.trainer.commands.pretrain import build_parser as pretraining_parser
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.loop.config import OptimizerConfig, TrainingFolders
from beambert.trainer.loop.engines.tensorflow import TensorFlow
from beambert.trainer.loop.steps import Trainer
from beambert.trainer.pretraining import recipes
from beambert.trainer.pretraining import run as pretraining
from beambert.trainer.pretraining.batches import training_batches
from beambert.trainer.pretraining.job import PretrainingJob
from beambert.trainer.pretraining.objective import PretrainingObjective
from beambert.trainer.pretraining.recipes import RECIPES, default_passes, find
from beambert.trainer.pretraining.records import open_records

BATCH, SEED = 12, 3


def make_trainer(config, strategy=None, **options) -> Trainer:
    return Trainer(
        TensorFlow(strategy),
        lambda: BertPretrainer(config, seed=SEED),
        PretrainingObjective(),
        OptimizerConfig(5e-3, num_train_steps=50, num_warmup_steps=0),
        SEED,
        **options,
    )


@pytest.fixture(scope="module")
def records(records_folder):
    return open_records(str(records_folder), "--data")


@pytest.fixture(scope="module")
def without_dropout(small_config):
    return dataclasses.replace(small_config, hidden_dropout_prob=0, attention_probs_dropout_prob=0)


def losses_of(trainer, records, steps: int) -> list[float]:
    batches = trainer.engine.distribute(
        lambda context: training_batches(records, BATCH, SEED, 0, context)
    )
    iterator = iter(batches)
    return [trainer.train_steps(iterator, 1)["loss"] for _ in range(steps)]


@pytest.mark.release
def test_accumulated_gradients_are_those_of_the_whole_batch(without_dropout, records, two_devices):
    whole = make_trainer(without_dropout)
    losses = losses_of(whole, records, 5)
    for strategy in (tf.distribute.get_strategy(), two_devices):
        parts = make_trainer(without_dropout, strategy, gradient_accumulation_steps=3)
        assert losses_of(parts, records, 5) == pytest.approx(losses, rel=1e-4)
        for mine, theirs in zip(parts.model.get_weights(), whole.model.get_weights(), strict=True):
            # A tenth of an update: AdamW turns the rounding of near-zero gradients into updates.
            np.testing.assert_allclose(mine, theirs, atol=5e-4)


@pytest.mark.slow
def test_every_part_of_a_batch_draws_its_own_masks(small_config):
    seeds = []

    class Recording(PretrainingObjective):
        def sums(self, model, features, dropout_seed):
            tf.py_function(lambda seed: seeds.append(tuple(seed.numpy())), [dropout_seed], [])
            return super().sums(model, features, dropout_seed)

    trainer = make_trainer(small_config, gradient_accumulation_steps=2)
    trainer.objective = Recording()
    trainer._gradients_by_way = [  # XLA runs no Python
        tf.function(functools.partial(trainer._gradients_of, trainer.objective.sums))
    ]
    row = {
        "input_ids": np.full([4, 32], 7, np.int32),
        "input_mask": np.ones([4, 32], np.int32),
        "segment_ids": np.zeros([4, 32], np.int32),
        "masked_lm_positions": np.ones([4, 5], np.int32),
        "masked_lm_ids": np.ones([4, 5], np.int32),
        "masked_lm_weights": np.ones([4, 5], np.float32),
        "next_sentence_labels": np.ones([4, 1], np.int32),
    }
    trainer.train_steps(iter(tf.data.Dataset.from_tensors(row).repeat()), 3)
    assert len(seeds) == 6 and len(set(seeds)) == 6


@pytest.mark.slow
def test_bfloat16_learns_like_float32(without_dropout, records):
    single = make_trainer(without_dropout)
    half = make_trainer(without_dropout, dtype="bfloat16")
    assert keras.config.dtype_policy().name == "float32", "left as it was"
    expected, actual = losses_of(single, records, 30), losses_of(half, records, 30)
    assert expected[-1] < expected[0] - 0.5
    # 8 bits of a product's factors are kept: 2**-8 = 0.4 %.
    # The runs part slowly.
    assert actual[:10] == pytest.approx(expected[:10], rel=0.01)
    assert actual == pytest.approx(expected, rel=0.1)
    assert actual != pytest.approx(expected, rel=1e-6), "nothing was rounded"
    assert {v.dtype for v in half.model.trainable_variables} == {"float32"}


def flags(records_folder, config, folder, **others) -> list[str]:
    values = {"data": records_folder, "model": config, "model_dir": folder}
    values |= {"num_train_steps": 6, "train_batch_size": 8, "eval_steps": 3, "learning_rate": 1e-3}
    return [f"--{name}={value}" for name, value in (values | others).items()]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_decides_what_no_flag_says(name, monkeypatch):
    """Nor a field of a job from Python."""
    asked = []
    monkeypatch.setattr(pretraining, "pretrain", lambda job, *_: asked.append(job))
    given = [f"--recipe={name}", "--data=gs://bucket/r", "--model_dir=m"]
    pretrain_main(given)
    pretrain_main([*given, "--num_train_steps=50"])
    recipe, (whole, short) = RECIPES[name](), asked
    fields = {"data": "gs://bucket/r", "output": TrainingFolders("m"), "num_train_steps": 50}
    assert PretrainingJob.by_recipe(name, **fields) == short
    assert whole.model == recipe["model"]
    assert whole.optimizer.num_train_steps == recipe["num_train_steps"]
    assert whole.optimizer.num_warmup_steps == recipe["num_warmup_steps"]
    assert whole.optimizer.learning_rate == recipe["learning_rate"]
    assert whole.loop.train_batch_size == recipe["train_batch_size"]
    assert (short.optimizer.num_train_steps, short.optimizer.num_warmup_steps) == (50, 5)


def test_the_papers_recipe_is_the_default():
    parsed = pretraining_parser().parse_args(["--data=r", "--model_dir=m"])
    # Devlin et al. 2019, appendix A.2; the optimizer is that of the release's optimization.py.
    assert (parsed.train_batch_size, parsed.learning_rate) == (256, 1e-4)
    assert parsed.optimizer == "adamw"
    assert parsed.recipe is None
    recipe = find(None, None)
    assert recipe["model"] == "base"
    assert (recipe["num_train_steps"], recipe["num_warmup_steps"]) == (1_000_000, 10_000)
    assert parsed.long_data_share == 0.1


def test_continuing_has_settings_of_its_own(records_folder, monkeypatch, tmp_path):
    """Those of random weights would undo what the encoder has learned."""
    asked = []
    monkeypatch.setattr(pretraining, "pretrain", lambda job, *_: asked.append(job))
    config = {"vocab_size": 9, "hidden_size": 384}
    (tmp_path / "config.json").write_text(json.dumps(config))
    given = [f"--data={records_folder}", f"--init={tmp_path}", "--model_dir=m"]
    pretrain_main(given)
    pretrain_main([*given, "--num_train_steps=100", "--learning_rate=1e-3"])
    whole, short = asked
    assert (whole.loop.train_batch_size, whole.optimizer.learning_rate) == (32, 1e-4)
    assert whole.num_train_epochs == 3
    assert short.num_train_epochs is None
    assert (short.optimizer.num_warmup_steps, short.optimizer.learning_rate) == (6, 1e-3)
    fields = {"init": str(tmp_path), "data": str(records_folder), "output": whole.output}
    by_python = PretrainingJob.by_recipe(**fields)
    assert by_python == whole


@pytest.mark.parametrize(
    ("recipe", "is_fitting"), [("tiny", True), ("crammed_tiny", True), ("modern_tiny", False)]
)
def test_a_recipe_of_another_model_is_refused(recipe, is_fitting, encoder_folder):
    """It would train a published encoder with a small one's rate in silence."""
    config = json.loads((encoder_folder / "bert_config.json").read_text())
    config |= {"hidden_size": 128, "num_hidden_layers": 2}
    found = read_config(json.dumps(config))
    if is_fitting:
        recipes.check_fits(recipe, found, "e")
        found = dataclasses.replace(found, num_hidden_layers=3)
    with pytest.raises(InputError, match=f"--recipe={recipe}: "):
        recipes.check_fits(recipe, found, "e")


@pytest.mark.parametrize(("tokens", "passes"), [(2.5e6, 3), (2.5e7, 2), (2.5e8, 1)])
def test_large_texts_need_fewer_passes(tokens, passes):
    assert default_passes(tokens) == passes
