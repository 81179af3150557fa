"""Pre-training with `--objective=mlm`, and with other labels of pairs than next sentence."""

import functools
import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from support import small_pretraining
from support.small_pretraining import STEPS

from beambert.errors import InputError
from beambert.model.objectives import MLM
from beambert.model.pretrainer import BertPretrainer
from beambert.trainer.asking import fill, score, score_next
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.model_folders import open_model
from beambert.trainer.models import pretrained_model
from beambert.trainer.weights.initial import open_initial


def flags(records, config, model_dir, **others) -> list[str]:
    return small_pretraining.flags(records, config, model_dir, **{"objective": "mlm"} | others)


@pytest.fixture(scope="module")
def unpaired_folder(records_folder, tmp_path_factory):
    """The same records without the labels of next sentence prediction."""
    folder = shutil.copytree(records_folder, tmp_path_factory.mktemp("unpaired") / "records")
    for part in (folder, folder / "eval"):
        info = json.loads((part / "info.json").read_text())
        for file in info["files"]:
            path = part / file["name"]
            examples = [
                tf.train.Example.FromString(record.numpy())
                for record in tf.data.TFRecordDataset(str(path))
            ]
            with tf.io.TFRecordWriter(str(path)) as writer:
                for example in examples:
                    del example.features.feature["next_sentence_labels"]
                    writer.write(example.SerializeToString())
            file["bytes"] = path.stat().st_size
        info["parameters"]["pairs"] = "none"
        (part / "info.json").write_text(json.dumps(info))
    return folder


@pytest.fixture(scope="module")
def masked_lm_folder(unpaired_folder, small_config_file, tmp_path_factory):
    """A finished encoder that has read no labels."""
    folder = tmp_path_factory.mktemp("mlm") / "encoder"
    pretrain_main(flags(unpaired_folder, small_config_file, folder))
    return folder


@pytest.mark.slow
def test_labels_are_ignored(masked_lm_folder, records_folder, small_config_file, tmp_path, capsys):
    """Records with labels and without give the same weights to the bit."""
    pretrain_main(flags(records_folder, small_config_file, tmp_path / "encoder"))
    said = capsys.readouterr().out
    assert ", --objective=mlm\n" in said and "next sentence" not in said
    small_pretraining.assert_same_weights(tmp_path / "encoder", masked_lm_folder)


def test_results_are_those_of_the_saved_weights(
    masked_lm_folder, records_folder, read_rows, small_config
):
    rows = read_rows(records_folder / "eval")
    features = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    model = BertPretrainer(small_config, seed=99, objective=MLM)
    model.load_weights(masked_lm_folder / "model.weights.h5")
    logits = {name: value.numpy() for name, value in model(features).items()}
    assert set(logits) == {"masked_lm_logits", "hidden_states"}
    used = features["masked_lm_weights"] > 0
    tokens, guesses = features["masked_lm_ids"][used], logits["masked_lm_logits"][used]
    log_probabilities = tf.nn.log_softmax(guesses).numpy()
    loss = -log_probabilities[np.arange(len(tokens)), tokens].mean()
    results = json.loads((masked_lm_folder / "results.json").read_text())
    assert results.pop("commonest_token_accuracy") > 0
    of_token = results.pop("masked_lm_loss_per_character") * results.pop("characters_per_token")
    assert of_token == pytest.approx(results["masked_lm_loss"])
    assert results == pytest.approx(
        {
            "loss": loss,
            "masked_lm_loss": loss,
            "masked_lm_accuracy": (guesses.argmax(-1) == tokens).mean(),
            "masked_lm_perplexity": np.exp(loss),
        },
        rel=1e-4,
    )


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


def test_the_objective_belongs_to_the_training(
    masked_lm_folder, encoder_folder, unpaired_folder, records_folder, small_config_file, capsys
):
    training = json.loads((masked_lm_folder / "training.json").read_text())
    assert training["objective"] == "mlm"
    # A training from before there was a choice is continued.
    assert "objective" not in json.loads((encoder_folder / "training.json").read_text())
    pretrain_main(flags(unpaired_folder, small_config_file, masked_lm_folder))
    assert "already finished by the same command" in capsys.readouterr().out
    with pytest.raises(InputError, match='--objective there "mlm", here null'):
        pretrain_main(flags(records_folder, small_config_file, masked_lm_folder, objective=None))


@pytest.mark.release
def test_documents_are_kept_apart(
    masked_lm_folder, unpaired_folder, small_config_file, tmp_path, monkeypatch, capsys
):
    """The flag is the training's: it changes the weights."""
    folder = tmp_path / "encoder"
    arguments = flags(unpaired_folder, small_config_file, folder)
    arguments.append("--attend_within_documents")
    small_pretraining.interrupted_and_continued(arguments, folder, monkeypatch)
    assert "every token attends to its own document only\n" in capsys.readouterr().out
    apart, together = (small_pretraining.weights_of(each) for each in (folder, masked_lm_folder))
    assert any((apart[name] != value).any() for name, value in together.items())
    with pytest.raises(InputError, match="--attend_within_documents there true, here null"):
        pretrain_main(flags(unpaired_folder, small_config_file, folder))
    assert score(str(folder), ["the river"])[0].pseudo_log_likelihood < 0


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


def test_it_is_asked_about_texts_but_not_about_pairs(masked_lm_folder):
    (filled,) = fill(str(masked_lm_folder), ["the [MASK] of a"])
    assert sum(probability for _, probability in filled.answers[0]) <= 1
    assert score(str(masked_lm_folder), ["the river"])[0].pseudo_log_likelihood < 0
    with pytest.raises(InputError, match="lacks the head that this needs .cls/seq_relationship"):
        score_next(str(masked_lm_folder), [("the river", "a")])


def test_exports(masked_lm_folder, tmp_path):
    """The names that transformers gives are tested with its own files in tests/trainer/weights."""
    out = tmp_path / "hf"
    export_main([f"--model={masked_lm_folder}", "--to=huggingface", f"--output={out}"])
    running = shutil.copytree(masked_lm_folder, tmp_path / "running")
    (running / "_SUCCESS").rename(running / "_UNFINISHED")
    step = ["--to=huggingface", f"--output={tmp_path / 'step'}", f"--checkpoint={STEPS}"]
    export_main([f"--model={running}", *step])
    tf1 = tmp_path / "tf1"
    export_main([f"--model={masked_lm_folder}", "--to=tf1", f"--output={tf1}"])
    finished, at_step = (
        safetensors.numpy.load_file(folder / "model.safetensors")
        for folder in (out, tmp_path / "step")
    )
    assert finished.keys() == at_step.keys()
    assert all((finished[name] == value).all() for name, value in at_step.items())
    own = open_initial(str(masked_lm_folder), "--init").read()
    for folder in (out, tf1):
        read = open_initial(str(folder), "--init").read()
        assert read.keys() == own.keys() and not [name for name in read if "pooler" in name]
        for name, value in own.items():
            np.testing.assert_array_equal(read[name], value, err_msg=name)


@pytest.mark.slow
def test_its_saved_model_has_no_pooled_output(masked_lm_folder, tmp_path):
    export_main([f"--model={masked_lm_folder}", f"--output={tmp_path}"])
    served = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    assert set(served(text=tf.constant(["the river"]))) == {"sequence_output", "input_mask"}
    assert "pooled" not in (tmp_path / "1" / "README.md").read_text()


@pytest.mark.release
def test_weights_go_from_one_objective_to_the_other(
    masked_lm_folder, encoder_folder, records_folder, tmp_path, capsys
):
    """What both have is kept, and the rest is named."""
    heads = "bert/pooler/dense/kernel, bert/pooler/dense/bias, cls/seq_relationship/kernel"
    for init, objective, said in (
        (masked_lm_folder, "bert", f"lacks {heads}"),
        (encoder_folder, "mlm", f"has {heads}"),
    ):
        folder = tmp_path / objective
        given = {"model": None, "init": init, "objective": objective, "learning_rate": 1e-9}
        arguments = flags(records_folder, None, folder, **given, num_train_steps=1)
        pretrain_main(arguments)
        assert f"{init}: {said}" in capsys.readouterr().out
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

    with pytest.raises(InputError, match="lacks the head that this needs .*seq_relationship"):
        score_next(str(folder), [("a b", "c d")])
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
