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
from beambert.model.pretrainer import BertPretrainer
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.comparing import compare
from beambert.trainer.loop.engines.tensorflow import TensorFlow
from beambert.trainer.pretraining.batches import training_batches
from beambert.trainer.pretraining.distillation import Teacher
from beambert.trainer.pretraining.objective import MaskedLMObjective
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


@pytest.mark.slow
def test_the_teacher_belongs_to_the_training(
    student_folder, encoder_folder, unpaired_folder, small_config_file, tmp_path, capsys
):
    training = json.loads((student_folder / "training.json").read_text())
    assert training["distill_from"] == str(encoder_folder)
    moved = shutil.copytree(encoder_folder, tmp_path / "moved")
    pretrain_main(flags(unpaired_folder, small_config_file, student_folder, moved))
    assert "already finished by the same command" in capsys.readouterr().out
    with pytest.raises(InputError, match="distill_from_sha256 is another one"):
        pretrain_main(flags(unpaired_folder, small_config_file, student_folder, None))
    found = compare([str(student_folder), str(encoder_folder)])
    assert found.settings["distill_from_sha256"][1] is None
    assert json.loads((encoder_folder / "training.json").read_text())["distill_from"] is None


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
