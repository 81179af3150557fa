"""Numbers, several labels, choices and tags: learnt, scored, and answered alike when served."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from support.small_finetuning import results

from beambert.errors import InputError
from beambert.pipelines.tasks.declarations import KINDS, find_task
from beambert.pipelines.tasks.reading import read_examples, read_splits
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.trainer import model_folders
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.finetuning import run as finetuning_run
from beambert.trainer.finetuning.batches import PaddedBatches, choose_lengths
from beambert.trainer.models import task_model
from beambert.trainer.tasks.tagging import TaggingObjective
from beambert.trainer.weights.export import export_hugging_face

HAPPY, SAD = ("river", "city"), ("war", "died")
NEUTRAL = ("the", "a", "house", "year", "people")


def phrase(random, *words) -> list[str]:
    filler = list(random.choice(NEUTRAL, random.integers(1, 6)))
    together = [*filler, *words]
    random.shuffle(together)
    return together


def write(folder, name, header, rows):
    lines = [",".join(header), *(",".join(map(str, row)) for row in rows)]
    (folder / name).write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder for each kind; one word decides."""
    root, random = tmp_path_factory.mktemp("kinds"), np.random.default_rng(4)
    for kind in ("regression", "multi_label", "choice", "tagging"):
        (root / kind).mkdir()
    for split, count in (("train", 400), ("dev", 80)):
        scored, chosen, tagged, labelled = [], [], [], []
        for _ in range(count):
            happy = random.integers(0, 4)
            words = [random.choice(HAPPY) for _ in range(happy)]
            scored.append((" ".join(phrase(random, *words)), 2 * happy - 1))
            right = random.integers(0, 3)
            endings = [
                " ".join(phrase(random, random.choice(HAPPY if i == right else SAD)))
                for i in range(3)
            ]
            chosen.append(("The year", "people", *endings, right))
            sentence = phrase(random, *words, random.choice(SAD))
            tags = {**dict.fromkeys(HAPPY, "B-JOY"), **dict.fromkeys(SAD, "B-SORROW")}
            moods = {"joy": HAPPY, "sorrow": SAD}
            text = phrase(random, *random.choice(HAPPY + SAD, random.integers(0, 3)))
            labels = [mood for mood, words_of in moods.items() if {*text} & {*words_of}]
            labelled.append((" ".join(text), "|".join(labels)))
            tagged.append("".join(f"{word} {tags.get(word, 'O')}\n" for word in sentence))
        write(root / "regression", f"{split}.csv", ("text", "label"), scored)
        write(root / "multi_label", f"{split}.csv", ("text", "label"), labelled)
        names = ("text", "text_b", "choice_0", "choice_1", "choice_2", "label")
        write(root / "choice", f"{split}.csv", names, chosen)
        (root / "tagging" / f"{split}.conll").write_text("\n".join(tagged))
    return root


@pytest.fixture(scope="module")
def lengths_of():
    """What each kind's batches are padded to; but for one, several lengths, as of more data."""
    return {}


@pytest.fixture(scope="module")
def finetuned(data, encoder_folder, lengths_of, tmp_path_factory):
    made = {}

    def finetune(kind):
        if kind in made:
            return made[kind]

        def record(*arguments):
            lengths_of[kind] = choose_lengths(*arguments)
            return lengths_of[kind]

        made[kind] = tmp_path_factory.mktemp(kind) / "model"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(finetuning_run, "choose_lengths", record)
            if kind not in ("regression", "multi_label"):
                patch.setattr(finetuning_run, "COMPILING_FLOPS", 0)
            finetune_main(
                [
                    f"--task={kind}",
                    f"--data_dir={data / kind}",
                    f"--init={encoder_folder}",
                    f"--model_dir={made[kind]}",
                    *(["--label_separator=|"] if kind == "multi_label" else []),
                    *("--train_batch_size=16", "--learning_rate=3e-3", "--num_train_epochs=8"),
                ]
            )
        return made[kind]

    return finetune


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "metric", "least", "baseline"),
    [
        pytest.param("regression", "pearson", 0.8, 0.0, marks=pytest.mark.release),
        ("choice", "accuracy", 0.9, 0.6),
        ("tagging", "entity_f1", 0.95, 0.0),
    ],
)
def test_learnt(finetuned, lengths_of, kind, metric, least, baseline):
    folder = finetuned(kind)
    found = results(folder)
    # The best weights by the task's own metric are the result.
    assert json.loads((folder / "training.json").read_text())["loop"]["best_metric"] == metric
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    best = max(row[metric] for row in rows if row["split"] == "eval")
    assert found[metric] == pytest.approx(best, rel=1e-5)
    assert (len(lengths_of[kind]) > 1) == (kind != "regression")
    assert found[metric] > least
    assert found[f"baseline_{metric}"] <= baseline


def dev(data, kind):
    return read_examples(find_task(kind), str(data / kind), "dev")


def trained_path(folder, kind, examples):
    """The model on the arrays that training makes."""
    found = model_folders.open_model(str(folder), "--model")
    text_features = TextFeatures(found.vocabulary, True, found.training["max_seq_length"])
    features = KINDS[kind].features(examples, found.training["labels"], text_features)
    batch = PaddedBatches(features)(tf.range(len(features)), found.training["max_seq_length"])
    return task_model(found), batch


def served(folder, **inputs):
    model = tf.saved_model.load(folder / "saved_model").signatures["serving_default"]
    return {name: value.numpy() for name, value in model(**inputs).items()}


@pytest.mark.slow
def test_several_labels_are_served_and_exported_alike(data, finetuned, tmp_path):
    folder = finetuned("multi_label")
    task = dataclasses.replace(find_task("multi_label"), label_separator="|")
    examples = read_examples(task, str(data / "multi_label"), "dev")
    model, batch = trained_path(folder, "multi_label", examples)
    answer = served(folder, text=tf.constant([e.text for e in examples]))
    expected = tf.sigmoid(model(batch)).numpy()
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    names = np.array(["joy", "sorrow"])
    predicted = [tuple(names[row > 0.5]) for row in expected]
    assert [tuple(x.decode() for x in row if x) for row in answer["labels"]] == predicted
    right = [one == e.label for one, e in zip(predicted, examples, strict=True)]
    found = results(folder)
    assert np.mean(right) == pytest.approx(found["exact_match"])
    assert found["micro_f1"] > 0.95 and found["baseline_micro_f1"] < 0.7
    export_hugging_face(str(folder), str(tmp_path / "exported"))
    config = json.loads((tmp_path / "exported" / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["problem_type"] == "multi_label_classification"
    assert config["id2label"] == {"0": "joy", "1": "sorrow"}


@pytest.mark.slow
def test_choices_are_served_alike(data, finetuned):
    folder, examples = finetuned("choice"), dev(data, "choice")
    answer = served(
        folder,
        text=tf.constant([e.text for e in examples]),
        text_b=tf.constant([e.text_b for e in examples]),
        choices=tf.constant([e.choices for e in examples]),
    )
    model, batch = trained_path(folder, "choice", examples)
    flat = {name: tf.reshape(value, [-1, value.shape[-1]]) for name, value in batch.items()}
    expected = tf.nn.softmax(tf.reshape(model(flat), [-1, 3]))
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    right = [a.decode() == e.label for a, e in zip(answer["label"], examples, strict=True)]
    assert np.mean(right) == pytest.approx(results(folder)["accuracy"])


@pytest.mark.slow
def test_tags_are_served_alike(data, finetuned):
    folder, examples = finetuned("tagging"), dev(data, "tagging")
    tags = served(folder, text=tf.constant([" ".join(e.words) for e in examples]))["tags"]
    found = [[tag.decode() for tag in row if tag] for row in tags]
    assert [len(row) for row in found] == [len(e.words) for e in examples]
    model, batch = trained_path(folder, "tagging", examples)
    labels = (folder / "labels.txt").read_text().split()
    likeliest = TaggingObjective((8,)).outputs_of(model(batch))["label_ids"].numpy()
    is_word = batch["label_ids"].numpy() >= 0
    expected = [labels[index] for index in likeliest[is_word]]
    # Every word of these sentences has a piece in its sequence.
    assert [tag for row in found for tag in row] == expected
    gold = [tag for e in examples for tag in e.tags]
    assert np.mean([one == other for one, other in zip(gold, expected, strict=True)]) > 0.95


@pytest.mark.slow
def test_a_word_without_room_is_outside(finetuned, encoder_folder):
    folder = finetuned("tagging")
    text = " ".join(["river"] * 40)
    (tags,) = served(folder, text=tf.constant([text]))["tags"]
    length = results_length(folder)
    assert [tag.decode() for tag in tags] == ["B-JOY"] * (length - 2) + ["O"] * (42 - length)


def results_length(folder) -> int:
    return json.loads((folder / "training.json").read_text())["max_seq_length"]


def test_labels_of_words_that_are_no_entities(tmp_path):
    (tmp_path / "train.conll").write_text("the DT\nriver NN\n")
    with pytest.raises(InputError, match=r"tag 'DT'.*take --task=word_labels"):
        read_splits(find_task("tagging"), str(tmp_path), ("train",), False)
    read = read_splits(find_task("word_labels"), str(tmp_path), ("train",), False)
    assert read.labels == ("DT", "NN")
