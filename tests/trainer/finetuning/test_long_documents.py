"""Long texts in windows: learnt, where the beginning says nothing, and answered alike when served.

The class weights of a task are tested with them, to train one model instead of two.
"""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from beambert.errors import InputError
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.reading import read_examples, read_splits
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.trainer import model_folders
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.finetuning.batches import PaddedBatches
from beambert.trainer.models import task_model
from beambert.trainer.serving.versions import export

LENGTH, WINDOWS = 12, 3
FILLER = ("the", "a", "house", "year", "people")
WORDS = {"happy": "river", "sad": "war"}


def write(folder, name, count, random):
    """Texts of up to three windows, whose last words decide; most are happy."""
    rows = ["text\tlabel"]
    for number in range(count):
        label = "sad" if number % 4 == 0 else "happy"
        filler = random.choice(FILLER, random.integers(12, 22))
        rows.append(f"{' '.join([*filler, *[WORDS[label]] * 4])}\t{label}")
    (folder / name).write_text("\n".join(rows) + "\n")


def flags_of(data, encoder_folder, model, *more):
    return [
        *("--task=classification", f"--data_dir={data}", f"--init={encoder_folder}"),
        *(f"--model_dir={model}", f"--max_seq_length={LENGTH}", "--train_batch_size=16"),
        *("--learning_rate=3e-3", "--num_train_epochs=6", f"--max_windows={WINDOWS}"),
        *more,
    ]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("long"), np.random.default_rng(5)
    write(folder, "train.tsv", 320, random)
    write(folder, "dev.tsv", 60, random)
    return folder


@pytest.fixture(scope="module")
def model(data, encoder_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("windows") / "model"
    finetune_main(flags_of(data, encoder_folder, folder, "--class_weights=balanced"))
    return folder


@pytest.mark.release
def test_windows_are_learnt_and_served_alike(model, data, tmp_path):
    """In batches of any size, whatever the lengths of the other texts."""
    assert json.loads((model / "results.json").read_text())["accuracy"] > 0.9
    found = model_folders.open_model(str(model), "--model")
    assert found.training["windows"] == WINDOWS
    assert found.training["class_weights"] == "balanced"
    examples = read_examples(find_task("classification"), str(data), "dev")
    text_features = TextFeatures(found.vocabulary, True, LENGTH, WINDOWS)
    features = find_task("classification").features(
        examples, found.training["labels"], text_features
    )
    assert len(set(-(-features.lengths // LENGTH))) > 1
    batch = PaddedBatches(features)(tf.range(len(features)), LENGTH * WINDOWS)
    expected = tf.nn.softmax(task_model(found)(batch)).numpy()
    texts = [example.text for example in examples]
    path = export(str(model), str(tmp_path / "serving"))
    for folder in (f"{model}/saved_model", path):
        answer = tf.saved_model.load(folder).signatures["serving_default"]
        served = [answer(text=tf.constant(some))["probabilities"] for some in (texts, texts[3:4])]
        np.testing.assert_allclose(served[0], expected, atol=1e-5)
        np.testing.assert_allclose(served[1], expected[3:4], atol=1e-5)
    assert "in up to 3 windows" in (tmp_path / "serving" / "1" / "README.md").read_text()


def test_pairs_have_no_windows(tmp_path):
    (tmp_path / "train.tsv").write_text("text\ttext_b\tlabel\na\tb\tx\nc\td\ty\n")
    task = dataclasses.replace(find_task("classification"), max_windows=WINDOWS)
    with pytest.raises(InputError, match="--max_windows=3: .*train.tsv has pairs of"):
        read_splits(task, str(tmp_path), ("train",), False)
