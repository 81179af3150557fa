"""Pre-training with `--objective=mlm`, and with other labels of pairs than next sentence."""

import functools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from support import small_pretraining

from beambert.errors import InputError
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.model_folders import open_model
from beambert.trainer.models import pretrained_model
from beambert.trainer.weights.initial import open_initial


def flags(records, config, model_dir, **others) -> list[str]:
    return small_pretraining.flags(records, config, model_dir, **{"objective": "mlm"} | others)


@pytest.mark.slow
def test_labels_are_ignored(
    student_folder, encoder_folder, records_folder, small_config_file, tmp_path, capsys
):
    """Records with labels and without give the same weights but for the rounding of float32.

    The other features make another program, which may add in another order; 2e-7 was seen. An
    update changes a weight by up to 5e-3, so a label that mattered would show.
    """
    others = {"distill_from": encoder_folder}
    pretrain_main(flags(records_folder, small_config_file, tmp_path / "encoder", **others))
    printed = capsys.readouterr().out
    assert ", --objective=mlm\n" in printed and "next sentence" not in printed
    small_pretraining.assert_same_weights(tmp_path / "encoder", student_folder, tolerance=1e-5)


def test_bert_needs_labels(unpaired_folder, records_folder, small_config_file, tmp_path):
    message = (
        "have no next_sentence_labels, which --objective=bert learns from; give --objective=mlm, or"
    )
    for data in (
        {"records": unpaired_folder},
        {"records": records_folder, "eval_data": unpaired_folder / "eval"},
    ):
        with pytest.raises(InputError, match=message) as refused:
            pretrain_main(
                flags(config=small_config_file, model_dir=tmp_path / "m", objective=None, **data)
            )
        flag = "--eval_data" if "eval_data" in data else "--data"
        assert str(refused.value).startswith(f"{flag}={unpaired_folder}")
    assert not (tmp_path / "m").exists()


def test_documents_can_be_kept_apart_in_full_sentences_only(
    unpaired_folder, records_folder, encoder_folder, small_config_file, tmp_path
):
    flag = "--attend_within_documents"
    for records, others, message in (
        (
            records_folder,
            {},
            f"the records in {records_folder} are pairs.*; make them with --pairs",
        ),
        (unpaired_folder, {"objective": "rtd"}, "excludes --objective=rtd; give --obje"),
        (unpaired_folder, {"distill_from": encoder_folder}, "excludes --distill_from;"),
    ):
        with pytest.raises(InputError, match=f"^{flag}: {message}"):
            pretrain_main([*flags(records, small_config_file, tmp_path / "m", **others), flag])
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_its_saved_model_has_no_pooled_output(student_folder, tmp_path):
    export_main([f"--model={student_folder}", f"--output={tmp_path}"])
    served = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    assert set(served(text=tf.constant(["the river"]))) == {"sequence_output", "input_mask"}
    assert "pooled" not in (tmp_path / "1" / "README.md").read_text()


@pytest.mark.release
def test_weights_go_from_one_objective_to_the_other(
    student_folder, encoder_folder, records_folder, tmp_path, capsys
):
    """What both have is kept, and the rest is named."""
    heads = "bert/pooler/dense/kernel, bert/pooler/dense/bias, cls/seq_relationship/kernel"
    for init, objective, printed in (
        (student_folder, "bert", f"lacks {heads}"),
        (encoder_folder, "mlm", f"has {heads}"),
    ):
        folder = tmp_path / objective
        given = {"model": None, "init": init, "objective": objective, "learning_rate": 1e-9}
        arguments = flags(records_folder, None, folder, **given, num_train_steps=1)
        pretrain_main(arguments)
        assert f"{init}: {printed}" in capsys.readouterr().out
        before, after = (open_initial(str(path), "--init").read() for path in (init, folder))
        for name in before.keys() & after.keys():
            np.testing.assert_allclose(after[name], before[name], atol=1e-7, err_msg=name)


@pytest.fixture(scope="module")
def folder_of(records_folder, tmp_path_factory):
    """Returns the same records, whose labels are said to be those of a value of --pairs."""

    @functools.cache
    def make(pairs):
        folder = shutil.copytree(records_folder, tmp_path_factory.mktemp(pairs) / "records")
        for part in (folder, folder / "eval"):
            info = json.loads((part / "info.json").read_text())
            info["parameters"]["pairs"] = pairs
            (part / "info.json").write_text(json.dumps(info))
        return folder

    return make


@pytest.mark.release
@pytest.mark.parametrize(("objective", "task"), [("sop", "sentence_order"), ("copy", "copy")])
def test_a_model_and_its_ways_out(
    folder_of, records_folder, small_config_file, read_rows, tmp_path, capsys, objective, task
):
    folder, records = tmp_path / "encoder", folder_of(objective)
    pretrain_main(small_pretraining.flags(records, small_config_file, folder, objective=objective))
    rows = read_rows(records / "eval")
    features = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    model = pretrained_model(open_model(str(folder), "--model"))
    scores = model(features)[f"{task}_logits"].numpy()
    labels = features["next_sentence_labels"][:, 0]
    chances = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    results = json.loads((folder / "results.json").read_text())
    loss = -np.log(chances[np.arange(len(labels)), labels]).mean()
    assert results[f"{task}_loss"] == pytest.approx(loss, rel=1e-4)
    assert results[f"{task}_accuracy"] == pytest.approx((scores.argmax(-1) == labels).mean())
    assert results["loss"] == pytest.approx(loss + results["masked_lm_loss"], rel=1e-4)
    assert not [name for name in results if "next" in name]

    export_main([f"--model={folder}", f"--output={tmp_path / 'hf'}", "--to=huggingface"])
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["architectures"] == ["BertForPreTraining"]
    exported = open_initial(str(tmp_path / "hf"), "--init").read()
    kernel = model.pair_head.kernel.numpy()
    np.testing.assert_array_equal(exported["cls/seq_relationship/kernel"], kernel)

    capsys.readouterr()
    pretrain_main(small_pretraining.flags(records_folder, None, tmp_path / "next", init=folder))
    assert f"cls/{task}" in capsys.readouterr().out


def test_objectives_and_pairs_must_fit(folder_of, records_folder, small_config_file, tmp_path):
    for records, objective, message in (
        (
            folder_of("sop"),
            "bert",
            "'in order' or 'swapped'; give --objective=sop, .* --pairs=next`",
        ),
        (records_folder, "sop", "'is next' or .*=bert, or .* `beambert data --pairs=sop`"),
        (folder_of("copy"), "sop", "'copy' or 'other text'; give --objective=copy, or "),
        (records_folder, "copy", "'is next' or .*=bert, or .* `beambert data --pairs=copy`"),
    ):
        with pytest.raises(InputError, match=f"^--data={records}: .*{message}"):
            pretrain_main(
                small_pretraining.flags(
                    records, small_config_file, tmp_path / "m", objective=objective
                )
            )
    assert not (tmp_path / "m").exists()
