"""Pre-training end to end, with and without its padding."""

import collections
import dataclasses
import itertools
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from support import small_pretraining
from support.small_pretraining import assert_same_weights

from beambert.errors import InputError
from beambert.model.pretrainer import BertPretrainer
from beambert.trainer import model_folders
from beambert.trainer.commands import pretrain
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.loop.config import SEED_LIMIT, LoopConfig
from beambert.trainer.pretraining import run as pretraining_run
from beambert.trainer.pretraining.batches import training_batches
from beambert.trainer.pretraining.cost import capacity_for
from beambert.trainer.pretraining.records import open_records
from beambert.trainer.pretraining.run import divergence_warning

STEPS = 150


def flags(records, config, model_dir, **others) -> list[str]:
    values = {
        "num_train_steps": STEPS,
        "train_batch_size": 16,
        "eval_steps": 50,
        "save_checkpoints_steps": None,
    } | others
    return small_pretraining.flags(records, config, model_dir, **values)


def snapshot(folder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_results_are_those_of_the_saved_weights(
    encoder_folder, records_folder, read_rows, small_config
):
    rows = read_rows(records_folder / "eval")
    features = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    model = BertPretrainer(small_config, seed=99)
    model_folders.load_weights(model, str(encoder_folder))
    logits = {name: value.numpy() for name, value in model(features).items()}
    used = features["masked_lm_weights"] > 0
    tokens, guesses = features["masked_lm_ids"][used], logits["masked_lm_logits"][used]
    labels = features["next_sentence_labels"][:, 0]
    log_probabilities = tf.nn.log_softmax(guesses).numpy()
    expected = {
        "masked_lm_loss": -log_probabilities[np.arange(len(tokens)), tokens].mean(),
        "masked_lm_accuracy": (guesses.argmax(-1) == tokens).mean(),
        "next_sentence_accuracy": (logits["next_sentence_logits"].argmax(-1) == labels).mean(),
        "commonest_token_accuracy": collections.Counter(tokens).most_common(1)[0][1] / len(tokens),
    }
    expected["masked_lm_perplexity"] = np.exp(expected["masked_lm_loss"])
    words = (encoder_folder / "vocab.txt").read_text().split("\n")
    characters = sum(len(words[token].removeprefix("##")) for token in tokens)
    expected["characters_per_token"] = characters / len(tokens)
    expected["masked_lm_loss_per_character"] = expected["masked_lm_loss"] * len(tokens) / characters
    results = json.loads((encoder_folder / "results.json").read_text())
    assert {name: results[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert results["loss"] == pytest.approx(
        results["masked_lm_loss"] + results["next_sentence_loss"]
    )


def test_too_little_memory_is_one_message(records_folder, small_config_file, monkeypatch, tmp_path):
    def fail(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(pretraining_run, "train", fail)
    with pytest.raises(InputError, match=r"size=16: the memory is not enough .OOM .*_steps=2"):
        pretrain_main(flags(records_folder, small_config_file, tmp_path / "model"))


def test_an_encoder_that_learned_nothing(
    records_folder, small_config_file, monkeypatch, tmp_path, capsys
):
    results = {"masked_lm_loss": 3.0, "masked_lm_accuracy": 0.0}
    monkeypatch.setattr(pretraining_run, "train", lambda *_, **__: results)
    pretrain_main(flags(records_folder, small_config_file, tmp_path / "model"))
    assert "fine-tune with --init=random\n" in capsys.readouterr().out


def test_the_same_command_again_has_nothing_to_do(
    encoder_folder, records_folder, small_config_file, capsys
):
    before = snapshot(encoder_folder)
    pretrain_main(flags(records_folder, small_config_file, encoder_folder))
    assert "already finished" in capsys.readouterr().out
    assert snapshot(encoder_folder) == before


def test_what_decides_no_result_may_change(
    encoder_folder, records_folder, small_config_file, tmp_path, monkeypatch
):
    unfinished = shutil.copytree(encoder_folder, tmp_path / "encoder")
    (unfinished / "_SUCCESS").rename(unfinished / "_UNFINISHED")
    moved = shutil.copytree(records_folder, tmp_path / "records")
    others = {"save_checkpoints_steps": 5, "eval_steps": 7}

    def stop(*_, **__):
        raise InputError("far enough")

    monkeypatch.setattr(pretraining_run, "train", stop)
    with pytest.raises(InputError, match="far enough"):
        pretrain_main(flags(moved, small_config_file, unfinished, **others))
    training = json.loads((unfinished / "training.json").read_text())
    assert training["data"] == [str(moved)]
    assert {name: training["loop"][name] for name in others} == others


def test_other_parameters_are_refused(encoder_folder, records_folder, small_config_file):
    before = snapshot(encoder_folder)
    with pytest.raises(InputError, match=r"--model_dir=.*learning_rate there 0\.005, here 0\.01"):
        pretrain_main(flags(records_folder, small_config_file, encoder_folder, learning_rate=0.01))
    with pytest.raises(InputError, match="num_train_steps there 150, here 200"):
        pretrain_main(flags(records_folder, small_config_file, encoder_folder, num_train_steps=200))
    assert snapshot(encoder_folder) == before


def test_a_loss_above_that_of_an_even_guess_is_called_diverged():
    assert not divergence_warning({"masked_lm_loss": 9.3}, 10_000)
    assert not divergence_warning({}, 10_000)
    warning = divergence_warning({"masked_lm_loss": 12.34}, 10_000)
    assert "loss of 12.34 is above 9.21" in warning
    assert "--learning_rate" in warning


@pytest.fixture
def refusal(records_folder, small_config_file, tmp_path):
    """Runs the command with other flags; returns its one sentence."""

    def run(**others) -> str:
        model_dir = tmp_path / "model"
        with pytest.raises(InputError) as caught:
            pretrain_main(flags(records_folder, small_config_file, model_dir, **others))
        assert not model_dir.exists(), "claimed before everything was checked"
        message = str(caught.value)
        assert "\n" not in message
        return message

    return run


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 9}, "is 9"),
        ({"max_position_embeddings": 31}, "max_seq_length is 32"),
        # The second sentence would get no segment embedding.
        ({"type_vocab_size": 1}, "type_vocab_size is 1"),
        (None, "config.json"),
    ],
)
def test_models_that_cannot_read_the_records_are_refused(
    refusal, small_config, tmp_path, change, message
):
    path = tmp_path / "config.json"
    path.write_text(dataclasses.replace(small_config, **change).to_json() if change else "{")
    assert message in refusal(model=path)


def test_held_out_records_of_another_case_are_refused(refusal, records_folder, tmp_path):
    other = shutil.copytree(records_folder / "eval", tmp_path / "other")
    info = (other / "info.json").read_text()
    (other / "info.json").write_text(
        info.replace('"do_lower_case": true', '"do_lower_case": false')
    )
    message = refusal(eval_data=other)
    assert f"--eval_data={other}: its do_lower_case is False" in message


def test_a_batch_that_replicas_cannot_share_is_refused(refusal):
    message = refusal(strategy="mirrored", train_batch_size=15)
    assert "--train_batch_size=15" in message and "2" in message


def test_a_folder_of_somebody_else_is_refused(records_folder, small_config_file, tmp_path):
    (tmp_path / "thesis.doc").write_text("years of work")
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=r"--model_dir=.*thesis\.doc"):
        pretrain_main(flags(records_folder, small_config_file, tmp_path))
    assert snapshot(tmp_path) == before


def test_the_greatest_seed_fits_every_replica():
    seed = LoopConfig(1, random_seed=SEED_LIMIT - 1).random_seed
    assert seed + 65_537 * 1023 < 2**31


@pytest.mark.parametrize(
    "values",
    [
        {"model": "tiny", "init": "encoder", "num_train_steps": 5},
        {"init_positions": "tile"},
        {"generator_size": 0.5},
        {"long_data_share": 0.5},
        {"decay_share": 0.3},
        {"num_train_steps": 5, "budget": "30s"},
    ],
)
def test_what_excludes_each_other(tmp_path, monkeypatch, values):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "config.json").write_text('{"vocab_size": 9}')
    flags = [f"--{name}={value}" for name, value in values.items()]
    with pytest.raises(InputError, match=f"^{flags[0]}: "):
        pretrain.main(["--data=records", f"--model_dir={tmp_path}", *flags])


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
