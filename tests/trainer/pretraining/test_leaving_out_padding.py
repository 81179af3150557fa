"""How many rows batches get, and that a run with padding left out is the run with it."""

import dataclasses
import itertools
import json
import pathlib
import shutil

import numpy as np
import pytest
from support.small_pretraining import assert_same_weights

from beambert.model.pretrainer import BertPretrainer
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.pretraining import run as pretraining_run
from beambert.trainer.pretraining.batches import training_batches
from beambert.trainer.pretraining.cost import capacity_for
from beambert.trainer.pretraining.records import open_records

# Shapes of batches matter to XLA.
WITH_XLA = True

BATCH = 16


@pytest.fixture(scope="module")
def counted_records(records_folder, tmp_path_factory, read_rows):
    """The records, with the counts that `beambert data` writes."""
    folder = shutil.copytree(records_folder, tmp_path_factory.mktemp("counted") / "records")
    rows = read_rows(folder)
    info = json.loads((folder / "info.json").read_text())
    info["counts"] = {
        "instances": len(rows),
        "filled_tokens": int(sum(row["input_mask"].sum() for row in rows)),
        "predictions": int(sum(row["masked_lm_weights"].sum() for row in rows)),
    }
    (folder / "info.json").write_text(json.dumps(info))
    return folder


def test_rows_suffice_for_nearly_all_batches_and_spare_most_padding(counted_records):
    records = open_records(str(counted_records), "--data")
    capacity = capacity_for(records, BATCH)
    batches = list(itertools.islice(training_batches(records, BATCH, 1), 64))
    tokens = np.array([batch["input_mask"].sum() for batch in batches])
    predictions = np.array([(batch["masked_lm_weights"] > 0).sum() for batch in batches])
    assert (tokens <= capacity.tokens).mean() > 0.9
    assert (predictions <= capacity.predictions).mean() > 0.9
    assert capacity.tokens < 0.95 * BATCH * records.max_seq_length


def test_full_or_uncounted_records_keep_their_padding(counted_records, records_folder):
    assert capacity_for(open_records(str(records_folder), "--data"), BATCH) is None
    records = open_records(str(counted_records), "--data")
    counts = records.info.counts | {"filled_tokens": records.instances * 32}
    full = dataclasses.replace(records, info=dataclasses.replace(records.info, counts=counts))
    assert capacity_for(full, BATCH) is None


@pytest.mark.release
@pytest.mark.parametrize("parts", [1, 2])
def test_a_run_without_padding_is_the_run_with_it(
    counted_records, small_config, tmp_path, monkeypatch, parts
):
    """Dropout apart, whose masks are drawn by rows."""
    config = dataclasses.replace(
        small_config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    (tmp_path / "config.json").write_text(config.to_json())
    packed_calls = []
    packed_logits = BertPretrainer.packed_logits

    def count(*arguments):
        packed_calls.append(1)
        return packed_logits(*arguments)

    monkeypatch.setattr(BertPretrainer, "packed_logits", count)

    def run(name: str) -> pathlib.Path:
        values = {
            "data": counted_records,
            "model": tmp_path / "config.json",
            "model_dir": tmp_path / name,
            "num_train_steps": 20,
            "train_batch_size": BATCH * parts,
            "gradient_accumulation_steps": parts,
            "learning_rate": 1e-3,
        }
        pretrain_main([f"--{flag}={value}" for flag, value in values.items()])
        return tmp_path / name

    packed = run("packed")
    assert packed_calls
    packed_calls.clear()
    monkeypatch.setattr(pretraining_run, "capacities_of", lambda *_: {})
    padded = run("padded")
    assert not packed_calls
    # 20 updates of 1e-3; AdamW turns the rounding of near-zero gradients into updates.
    assert_same_weights(packed, padded, tolerance=2e-3)
