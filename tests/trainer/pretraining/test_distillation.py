"""`beambert pretrain --distill_from` from end to end."""

import dataclasses
import json
import shutil

import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from support import small_pretraining

from beambert.errors import InputError
from beambert.model.checkpoint_names import hugging_face_name
from beambert.model.objectives import BERT, MLM
from beambert.model.pretrainer import BertPretrainer
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.comparing import compare
from beambert.trainer.loop.config import OptimizerConfig
from beambert.trainer.loop.engines.tensorflow import TensorFlow
from beambert.trainer.loop.steps import Trainer
from beambert.trainer.pretraining.batches import training_batches
from beambert.trainer.pretraining.cost import capacity_for
from beambert.trainer.pretraining.distillation import Teacher
from beambert.trainer.pretraining.objective import MaskedLMObjective, PretrainingObjective
from beambert.trainer.pretraining.records import open_records
from beambert.trainer.weights.initial import open_initial


def flags(records, config, model_dir, teacher, **others) -> list[str]:
    given = {"objective": "mlm", "distill_from": teacher} | others
    return small_pretraining.flags(records, config, model_dir, **given)


def write_encoder(folder, config, vocabulary, has_head=True, **sizes):
    """A Hugging Face folder with random weights."""
    config = dataclasses.replace(config, **sizes)
    folder.mkdir()
    model = BertPretrainer(config, seed=7)
    arrays = {}
    for variable in model.variables:
        name, is_transposed = hugging_face_name(variable.path)
        if has_head or variable.path.startswith("bert/"):
            value = variable.numpy()
            arrays[name] = np.ascontiguousarray(value.T if is_transposed else value)
    safetensors.numpy.save_file(arrays, folder / "model.safetensors")
    (folder / "config.json").write_text(config.to_json())
    (folder / "vocab.txt").write_bytes(vocabulary.serialize())
    return folder


def held_out(read_rows, records_folder):
    rows = read_rows(records_folder / "eval")
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.slow
def test_results_are_those_of_the_two_models(
    student_folder, encoder_folder, records_folder, read_rows, small_config
):
    """All held-out records, counted with numpy."""
    features, answers, states = held_out(read_rows, records_folder), [], []
    for folder, objective in ((student_folder, MLM), (encoder_folder, BERT)):
        model = BertPretrainer(small_config, objective=objective)
        model.load_weights(folder / "model.weights.h5")
        found = model(features)
        answers.append(found)
        states.append(found["hidden_states"].numpy()[features["input_mask"].ravel() > 0])
    used = features["masked_lm_weights"] > 0
    student, teacher = (each["masked_lm_logits"].numpy()[used] for each in answers)
    labels = features["masked_lm_ids"][used]
    entropy = -np.take_along_axis(
        np.array([row - np.log(np.exp(row).sum()) for row in student.astype(np.float64)]),
        labels[:, None],
        1,
    )
    soft = [np.exp(logits.astype(np.float64) / 2) for logits in (student, teacher)]
    q, p = (each / each.sum(-1, keepdims=True) for each in soft)
    norms = np.linalg.norm(states, axis=-1).prod(0)
    expected = {
        "masked_lm_loss": entropy.mean(),
        "masked_lm_accuracy": (student.argmax(-1) == labels).mean(),
        "masked_lm_perplexity": np.exp(entropy.mean()),
        "distillation_loss": 4 * (p * np.log(p / q)).sum(-1).mean(),
        "cosine_loss": 1 - ((states[0] * states[1]).sum(-1) / norms).mean(),
    }
    expected["loss"] = (
        2 * expected["masked_lm_loss"] + 5 * expected["distillation_loss"] + expected["cosine_loss"]
    )
    results = json.loads((student_folder / "results.json").read_text())
    assert results.pop("commonest_token_accuracy") > 0
    of_token = results.pop("masked_lm_loss_per_character") * results.pop("characters_per_token")
    assert of_token == pytest.approx(results["masked_lm_loss"])
    assert results == pytest.approx(expected, rel=1e-4)


@pytest.mark.release
def test_an_interrupted_training_goes_on_to_the_same_weights(
    student_folder, encoder_folder, unpaired_folder, small_config_file, tmp_path, monkeypatch
):
    """The teacher may have moved meanwhile."""
    moved = shutil.copytree(encoder_folder, tmp_path / "moved")
    arguments = flags(unpaired_folder, small_config_file, tmp_path / "encoder", moved)
    small_pretraining.interrupted_and_continued(arguments, tmp_path / "encoder", monkeypatch)
    small_pretraining.assert_same_weights(tmp_path / "encoder", student_folder)


@pytest.mark.release
def test_two_devices_and_rows_without_padding_learn_the_same(
    encoder_folder, records_folder, read_rows, small_config, two_devices
):
    config = dataclasses.replace(
        small_config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    rows = read_rows(records_folder)
    counts = {
        "instances": len(rows),
        "filled_tokens": int(sum(row["input_mask"].sum() for row in rows)),
        "predictions": int(sum((row["masked_lm_weights"] > 0).sum() for row in rows)),
    }
    records = open_records(str(records_folder), "--data")
    records = dataclasses.replace(records, info=dataclasses.replace(records.info, counts=counts))
    teacher = Teacher.of(open_initial(str(encoder_folder), "--distill_from"), config, 32, 2)
    found, one = [], tf.distribute.get_strategy()
    for strategy, is_packed in ((one, False), (one, True), (two_devices, True)):
        engine = TensorFlow(strategy)
        rows = 8 // strategy.num_replicas_in_sync
        capacity = {(rows, records.max_seq_length): capacity_for(records, rows)}
        own = PretrainingObjective(capacity if is_packed else {})
        trainer = Trainer(
            engine,
            lambda: BertPretrainer(config, seed=3),
            teacher.objective(own, engine, "float32"),
            OptimizerConfig(5e-3, num_train_steps=50, num_warmup_steps=0),
            random_seed=1,
        )
        batches = engine.distribute(lambda context: training_batches(records, 8, 1, 0, context))
        iterator = iter(batches)
        found.append([trainer.train_steps(iterator, 1) for _ in range(4)])
    for steps in found[1:]:
        for mine, theirs in zip(steps, found[0], strict=True):
            assert mine == pytest.approx(theirs, rel=1e-3)


@pytest.mark.slow
def test_the_teacher_belongs_to_the_training(
    student_folder, encoder_folder, unpaired_folder, small_config_file, tmp_path, capsys
):
    training = json.loads((student_folder / "training.json").read_text())
    assert training["distill_from"] == str(encoder_folder)
    moved = shutil.copytree(encoder_folder, tmp_path / "moved")
    pretrain_main(flags(unpaired_folder, small_config_file, student_folder, moved))
    assert "already finished by the same command" in capsys.readouterr().out
    with pytest.raises(InputError, match="--distill_from"):
        pretrain_main(flags(unpaired_folder, small_config_file, student_folder, None))
    found = compare([str(student_folder), str(encoder_folder)])
    assert found.settings["distill_from_sha256"][1] is None
    assert "distill_from" not in json.loads((encoder_folder / "training.json").read_text())


@pytest.mark.parametrize(
    ("sizes", "others", "message"),
    [
        ({"max_position_embeddings": 16}, {}, "it has 16 trained positions"),
        ({"type_vocab_size": 1}, {}, "its type_vocab_size is 1"),
        ({"vocab_size": 500}, {}, "its vocab_size is 500"),
        ({"has_head": False}, {}, "has no masked-LM head"),
        ({}, {"objective": "rtd"}, "--objective=rtd has no teacher"),
    ],
)
def test_teachers_that_cannot_teach_are_refused(
    sizes, others, message, small_config, small_config_file, vocabulary, records_folder, tmp_path
):
    teacher = write_encoder(tmp_path / "teacher", small_config, vocabulary, **sizes)
    with pytest.raises(InputError, match=f"^--distill_from={teacher}: {message}"):
        pretrain_main(flags(records_folder, small_config_file, tmp_path / "m", teacher, **others))
    assert not (tmp_path / "m").exists()


def test_teachers_of_other_words_are_refused(
    encoder_folder, small_config, small_config_file, vocabulary, records_folder, tmp_path
):
    tokens = list(vocabulary.tokens)
    other = Vocabulary([*tokens[:-2], tokens[-1], tokens[-2]])
    swapped = write_encoder(tmp_path / "swapped", small_config, other)
    cased = write_encoder(tmp_path / "cased", small_config, vocabulary)
    (cased / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    for teacher, message in (
        (swapped, f"its vocabulary is .*, that of --distill_from={swapped} is"),
        (cased, "its do_lower_case is True, that of --distill_from=.* is False"),
        (records_folder, "^--distill_from=.*records: "),
    ):
        with pytest.raises(InputError, match=message):
            pretrain_main(flags(records_folder, small_config_file, tmp_path / "m", teacher))
        assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_no_gradient_and_no_dropout_reach_the_teacher(encoder_folder, small_config, records_folder):
    weights = open_initial(str(encoder_folder), "--distill_from")
    teacher = Teacher.of(weights, small_config, 32, 2)
    objective = teacher.objective(MaskedLMObjective(), TensorFlow(), "float32")
    student = BertPretrainer(small_config, seed=3, objective="mlm")
    features = next(iter(training_batches(open_records(str(records_folder), "--data"), 8, 1)))
    with tf.GradientTape() as tape:
        sums = objective.sums(student, features, tf.constant([1, 2]))
        loss = tf.add_n([sums[name] for name in objective.losses])
    theirs = [variable.value for variable in objective._teacher.variables]
    assert tape.gradient(loss, theirs) == [None] * len(theirs)
    # Of a student with the teacher's weights and no dropout there is nothing to learn.
    weights.load_into(student, "--init")
    same = objective.sums(student, features, None)
    assert float(same["distillation_loss"]) == pytest.approx(0, abs=1e-4)
    assert float(same["cosine_loss"]) == pytest.approx(0, abs=1e-3)
    assert keras.config.dtype_policy().name == "float32"
