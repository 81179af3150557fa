"""Masks drawn on records without any, at rates of one's own."""

import numpy as np
import pytest
import tensorflow as tf
from support import small_pretraining
from support.batches import assert_binomial, assert_same, take

from beambert.errors import InputError
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.loop.config import OptimizerConfig, TrainingFolders
from beambert.trainer.loop.engine import ONE_HOST
from beambert.trainer.pretraining import batches as batches_module
from beambert.trainer.pretraining.batches import evaluation_batches, training_batches
from beambert.trainer.pretraining.job import (
    PretrainingJob,
    parse_rates,
    rates_text,
)
from beambert.trainer.pretraining.masks import MaskingRules, rates_at
from beambert.trainer.pretraining.plan import make_plan
from beambert.trainer.pretraining.records import open_records

SEED, BATCH, LENGTH = 7, 8, 32
SHARDS = (60, 60, 60)


@pytest.fixture(scope="module")
def folders(tmp_path_factory, make_records):
    """The same texts without masks and with them, with held-out ones."""
    found = {}
    for masks in ("none", "static"):
        found[masks] = tmp_path_factory.mktemp("drawn") / masks
        make_records(found[masks], documents_a_shard=SHARDS, masks=masks)
        make_records(found[masks] / "eval", documents_a_shard=(14,), seed=100, masks=masks)
    return found


@pytest.fixture(scope="module")
def records(folders):
    return {masks: open_records(str(folder), "--data") for masks, folder in folders.items()}


@pytest.fixture(scope="module")
def held_out(folders):
    return {
        masks: open_records(str(folder / "eval"), "--data") for masks, folder in folders.items()
    }


def draw(records, count, step=0, context=ONE_HOST, *, batch=BATCH, seed=SEED, **given):
    rules = MaskingRules.of(records, **given)
    return take(training_batches(records, batch, seed, step, context, rules=rules), count)


def joined(batches) -> dict[str, np.ndarray]:
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def made_and_wanted(batch, rate) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of predictions of each row; the original rounds the share of all its tokens."""
    wanted = np.rint(batch["input_mask"].sum(axis=1) * rate).clip(1)
    return batch["masked_lm_weights"].sum(axis=1), wanted


def ways(batch, ids) -> tuple[int, int, int]:
    """Numbers of the chosen tokens that became [MASK], became another one and stayed."""
    row, slot = np.nonzero(batch["masked_lm_weights"])
    shown = batch["input_ids"][row, batch["masked_lm_positions"][row, slot]]
    label = batch["masked_lm_ids"][row, slot]
    masks, same = (shown == ids.mask).sum(), (shown == label).sum()
    return int(masks), int(len(shown) - masks - same), int(same)


class TestFlags:
    @pytest.mark.parametrize("text", ["0.15", "0.3:0.15", "0.1:0.4", "0.123456789"])
    def test_rates(self, text):
        assert rates_text(parse_rates(text)) == text
        assert parse_rates("0.2") == (0.2, 0.2)

    @pytest.mark.parametrize(
        ("masks", "flags"),
        [
            ("none", "--mask_rate=1.5"),
            ("none", "--mask_rate=0.1:0.2:0.3"),
            ("none", "--masking=static"),
            ("static", "--mask_rate=0.3 --masking=static"),
            ("static", "--do_whole_word_mask=True --masking=static"),
        ],
    )
    def test_what_is_refused(self, folders, small_config_file, tmp_path, masks, flags):
        arguments = small_pretraining.flags(folders[masks], small_config_file, tmp_path / "model")
        with pytest.raises(InputError, match=flags.partition("=")[0]):
            pretrain_main([*arguments, *flags.split()])
        assert not (tmp_path / "model").exists()

    def test_records_with_masks_and_without_need_a_word(self, folders, make_records, tmp_path):
        make_records(tmp_path / "long", length=64, documents_a_shard=(9,), masks="none")
        job = {"data": str(folders["static"]), "long_data": str(tmp_path / "long")}
        with pytest.raises(InputError, match=r"--masking: the records in .*long have no masks"):
            plan(**job)
        assert all(each.rules for each in plan(**job, masking="dynamic").data)


def plan(**given):
    optimizer = OptimizerConfig(1e-3, num_train_steps=101, num_warmup_steps=10)
    folders = TrainingFolders("nowhere")
    return make_plan(PretrainingJob(model="tiny", output=folders, optimizer=optimizer, **given))


class TestSettings:
    def test_what_training_json_names(self, folders):
        named = ("mask_rate", "do_whole_word_mask", "objective", "generator_size")
        always = {"objective": "bert", "generator_size": None}
        rtd = {"objective": "rtd", "generator_size": 0.5}
        for given, expected in (
            ({}, {}),
            ({"masking": "dynamic", "mask_rate": (0.15, 0.15)}, {}),
            ({"do_whole_word_mask": False}, {}),
            ({"mask_rate": (0.3, 0.15)}, {"mask_rate": "0.3:0.15"}),
            ({"do_whole_word_mask": True}, {"do_whole_word_mask": "True"}),
            ({"objective": "mlm"}, {"objective": "mlm"}),
            (rtd, rtd),
        ):
            training = plan(data=str(folders["none"]), **given).training
            assert training["masking"] == "dynamic"
            assert {name: training[name] for name in named if name in training} == always | expected
        training = plan(data=str(folders["static"])).training
        assert training["masking"] == "static" and not set(named) - set(always) & training.keys()
        training = plan(data=str(folders["static"]), mask_rate=(0.3, 0.3)).training
        assert training["masking"] == "dynamic" and training["mask_rate"] == "0.3"

    def test_a_recipe_s_rate_is_for_drawn_masks(self, folders):
        given = {"recipe": "modern_tiny", "output": TrainingFolders("nowhere")}
        given["data"] = str(folders["static"])
        assert make_plan(PretrainingJob.by_recipe(**given)).data[0].rules.rates == (0.3, 0.3)
        assert not make_plan(PretrainingJob.by_recipe(**given, masking="static")).data[0].rules

    def test_slots_of_the_plan(self, folders):
        for masks, given, slots in (
            ("static", {}, 5),
            ("static", {"masking": "dynamic"}, 5),
            ("static", {"masking": "dynamic", "mask_rate": (0.15, 0.5)}, 16),
            ("none", {}, 5),
            ("none", {"mask_rate": (0.4, 0.1)}, 13),
        ):
            assert plan(data=str(folders[masks]), **given).data[0].slots == slots


class TestRates:
    def test_the_first_and_the_last_step(self, records):
        rules = MaskingRules.of(records["none"], (0.3, 0.15), steps=101)
        steps = np.array([0, 25, 50, 100, 5000])
        np.testing.assert_allclose(
            rates_at(rules, steps), [0.3, 0.2625, 0.225, 0.15, 0.15], rtol=1e-12
        )
        assert rates_at(rules, steps)[[0, 3, 4]].tolist() == [0.3, 0.15, 0.15]

    @pytest.mark.slow
    def test_batches_have_the_rate_of_their_step(self, records):
        """Also inside of the steps whose sequences are dealt together."""
        given = {"rates": (0.5, 0.1), "steps": 41}
        for step, batch in enumerate(draw(records["none"], 50, **given)):
            made, wanted = made_and_wanted(batch, 0.5 - 0.4 * min(step, 40) / 40)
            np.testing.assert_array_equal(made, wanted)

    @pytest.mark.slow
    def test_the_step_is_that_of_the_training(self, records):
        """A later stretch begins with the first batch of its data."""
        rules = MaskingRules.of(records["none"], (0.5, 0.1), steps=41)
        batches = training_batches(records["none"], BATCH, SEED, rules=rules, steps_before=30)
        for step, batch in enumerate(take(batches, 11)):
            made, wanted = made_and_wanted(batch, 0.5 - 0.01 * (30 + step))
            np.testing.assert_array_equal(made, wanted)


class TestDraws:
    @pytest.mark.slow
    @pytest.mark.parametrize("words", [False, True])
    def test_records_with_masks_give_the_same_ones(self, records, words):
        """The same text is drawn from, whatever the records hide of it."""
        given = {"rates": (0.4, 0.2), "steps": 20, "do_whole_word_mask": words}
        mine, theirs = (draw(records[masks], 12, **given) for masks in ("none", "static"))
        assert_same(mine, theirs)
        assert mine[0]["masked_lm_ids"].shape == (BATCH, 13)
        assert joined(mine)["masked_lm_weights"].sum(axis=1).max() > 5


def rows_of(batch) -> list[bytes]:
    """The rows as bytes, in an order of their own."""
    names = sorted(batch)
    count = len(batch["input_ids"])
    return sorted(b"".join(batch[name][row].tobytes() for name in names) for row in range(count))


class TestEvaluation:
    @pytest.mark.slow
    def test_masks_of_the_paper(self, held_out, vocabulary):
        batch = joined(take(evaluation_batches(held_out["none"], 16)))
        is_row = batch["example_weights"] > 0
        batch = {name: value[is_row] for name, value in batch.items()}
        assert len(batch["input_ids"]) == held_out["none"].instances
        made, wanted = made_and_wanted(batch, 0.15)
        np.testing.assert_array_equal(made, wanted)
        found = ways(batch, TokenIds.of(vocabulary))
        for count, share in zip(found, (0.8, 0.1, 0.1), strict=True):
            assert_binomial(count, sum(found), share)

    @pytest.mark.slow
    def test_they_depend_on_the_record_alone(self, held_out, monkeypatch):
        """On no batch size, number of batches or hosts."""
        monkeypatch.setattr(batches_module, "EVALUATION_ROWS", 32)
        none = held_out["none"]
        whole = joined(take(evaluation_batches(none, 16)))
        for batches in (evaluation_batches(none, 8), evaluation_batches(none, 16, 3)):
            some = joined(take(batches))
            count = int(some["example_weights"].sum())
            for name, value in some.items():
                np.testing.assert_array_equal(value[:count], whole[name][:count])
        contexts = [tf.distribute.InputContext(2, host, 2) for host in range(2)]
        parts = [joined(take(evaluation_batches(none, 16, None, context))) for context in contexts]
        assert rows_of(joined(parts)) == rows_of(whole)
