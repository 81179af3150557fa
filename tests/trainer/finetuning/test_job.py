"""`beambert finetune` and `beambert export` on small tasks, and what they refuse."""

import collections
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest
import tensorflow as tf

from beambert.model.classifier import BertClassifier
from beambert.model.config import BertConfig
from beambert.model.pretrainer import BertPretrainer
from beambert.pipelines.model_inputs.examples import make_features
from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.weights import model_sha256, weights_sha256
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.examples import read_examples
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.finetuning import job, plan
from beambert.trainer.finetuning.batches import PaddedBatches
from beambert.trainer.model_folders import TrainingFolders
from beambert.trainer.serving.blessing import check_blessing
from beambert.trainer.serving.versions import export, served_model

ROOT = pathlib.Path(__file__).resolve().parents[3]
HAPPY, SAD, NEUTRAL = ("river", "city"), ("war", "died"), ("the", "a", "house", "year", "people")


def write_task(folder: pathlib.Path, pairs: bool, seed: int = 8) -> pathlib.Path:
    """A word gives each label away; in pairs the second text has it, and three labels are there."""
    random = np.random.default_rng(seed)
    folder.mkdir()
    for split, count in (("train", 240), ("dev", 61)):
        lines = ["text\ttext_b\tlabel" if pairs else "text\tlabel"]
        for _ in range(count):
            label = random.choice(["bad", "good", "odd"] if pairs else ["bad", "good"])
            clue = {"bad": SAD, "good": HAPPY, "odd": ("music", "song")}[label]
            words = [*random.choice(NEUTRAL, random.integers(1, 9)), random.choice(clue)]
            random.shuffle(words)
            fields = [" ".join(words).capitalize() + "!"]
            if pairs:
                fields.insert(0, " ".join(random.choice(NEUTRAL, random.integers(1, 40))))
            lines.append("\t".join([*fields, label]))
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def task_folder(tmp_path_factory):
    return write_task(tmp_path_factory.mktemp("task") / "single", pairs=False)


@pytest.fixture(scope="module")
def pair_folder(tmp_path_factory):
    return write_task(tmp_path_factory.mktemp("task") / "pairs", pairs=True)


def flags(data_dir, init, model_dir, **others) -> list[str]:
    values = {
        "task": "classification",
        "data_dir": data_dir,
        "init": init,
        "model_dir": model_dir,
        "train_batch_size": 16,
        "learning_rate": 3e-3,
        "num_train_epochs": 12,
    } | others
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


@pytest.fixture(scope="module")
def classifier_folder(task_folder, encoder_folder, tmp_path_factory):
    """Fine-tuned from the encoder."""
    folder = tmp_path_factory.mktemp("model") / "classifier"
    finetune_main(flags(task_folder, encoder_folder, folder))
    return folder


@pytest.fixture(scope="module")
def pair_classifier_folder(pair_folder, small_config_file, encoder_folder, tmp_path_factory):
    """Trained from random weights, on pairs."""
    folder = tmp_path_factory.mktemp("model") / "pairs"
    options = {"model": small_config_file, "vocab_file": encoder_folder / "vocab.txt"}
    finetune_main(flags(pair_folder, "random", folder, max_seq_length=20, **options))
    return folder


def results(folder) -> dict[str, float]:
    return json.loads((folder / "results.json").read_text())


def test_learns_a_separable_task(classifier_folder):
    assert results(classifier_folder)["accuracy"] > 0.95
    assert (classifier_folder / "labels.txt").read_text() == "bad\ngood\n"
    assert (classifier_folder / "_SUCCESS").exists()


@pytest.mark.slow
def test_learns_pairs_from_random_weights(pair_classifier_folder):
    assert results(pair_classifier_folder)["accuracy"] > 0.95
    training = json.loads((pair_classifier_folder / "training.json").read_text())
    assert training["is_pair"] and training["init"] == "random"
    assert training["labels"] == ["bad", "good", "odd"]


@pytest.mark.parametrize(
    ("task", "early_stopping", "patience"),
    [
        ("classification", None, 3),
        ("classification", False, None),
        ("rte", None, None),
        ("rte", True, 3),
    ],
)
def test_own_tasks_stop_early_and_published_ones_keep_their_recipe(
    task, early_stopping, patience, small_config
):
    asked = job.FinetuningJob(
        task=find_task(task),
        data_dir="data",
        init="encoder",
        output=TrainingFolders.of("model"),
        early_stopping=early_stopping,
    )
    for width, rate in ((128, 1e-3), (768, 5e-5)):
        config = dataclasses.replace(small_config, hidden_size=width)
        optimizer, loop = plan._schedule(asked, 320, config)
        assert (optimizer.learning_rate, loop.patience) == (rate, patience)
        assert loop.best_metric == "accuracy"
        expected = 300 if task == "classification" else 30
        assert (optimizer.num_train_steps, loop.eval_steps) == (expected, 10)


@pytest.mark.parametrize(
    ("task", "metric"),
    [
        ("cola", "matthews_correlation"),
        ("qqp", "f1"),
        ("sts-b", "pearson"),
        ("tagging", "entity_f1"),
        ("multi_label", "micro_f1"),
        ("squad2.0", "squad_f1"),
    ],
)
def test_the_first_metric_of_the_task_chooses_the_weights(task, metric, small_config):
    asked = job.FinetuningJob(
        task=find_task(task), data_dir="data", init="encoder", output=TrainingFolders.of("model")
    )
    assert plan._schedule(asked, 320, small_config)[1].best_metric == metric


@pytest.mark.parametrize("patience", [None, 3])
def test_answers_are_scored_in_the_order_of_the_examples(patience):
    """They come shortest first, with rows that fill up the last batch."""
    scored = []

    def results(outputs):
        scored.append(outputs["probabilities"].tolist())
        return {"f1": 0.5, "accuracy": 0.75, "further": 1.0}

    features = types.SimpleNamespace(example_lengths=np.array([5, 1, 3]))
    run = object.__new__(job._Finetuning)
    run._plan = types.SimpleNamespace(loop=types.SimpleNamespace(patience=patience))
    task = types.SimpleNamespace(metrics=("f1", "accuracy"))
    run._data = types.SimpleNamespace(features=lambda _: features, results=results, task=task)
    found = run._score({"probabilities": np.array([[1.0], [3.0], [5.0], [0.0]])})
    assert run.outputs["probabilities"].tolist() == [[5.0], [1.0], [3.0]]
    # Without early stopping nobody needs the scores before the end.
    assert found == ({"f1": 0.5, "accuracy": 0.75} if patience else {})
    assert scored == ([[[5.0], [1.0], [3.0]]] if patience else [])


def test_the_patience_stands_once_in_training_json(classifier_folder):
    training = json.loads((classifier_folder / "training.json").read_text())
    assert training["loop"]["patience"] == 3 and "patience" not in training
    # It decides the result, so the marker has it, where earlier versions look for it.
    assert json.loads((classifier_folder / "_SUCCESS").read_text())["patience"] == 3


def test_the_baseline_is_the_commonest_label(classifier_folder, task_folder):
    labels = {
        split: [line.split("\t")[-1] for line in (task_folder / f"{split}.tsv").open()][1:]
        for split in ("train", "dev")
    }
    ((commonest, _),) = collections.Counter(labels["train"]).most_common(1)
    expected = labels["dev"].count(commonest) / len(labels["dev"])
    assert results(classifier_folder)["baseline_accuracy"] == pytest.approx(expected)


def test_the_encoder_is_taken_over(encoder_folder, monkeypatch, task_folder, tmp_path):
    built = []

    def stop(trainer, *_):
        built.append(trainer)
        raise InputError("far enough")

    monkeypatch.setattr(job, "train", stop)
    with pytest.raises(InputError, match="far enough"):
        finetune_main(flags(task_folder, encoder_folder, tmp_path / "model"))
    config = BertConfig.from_json((encoder_folder / "bert_config.json").read_text())
    pretrained = BertPretrainer(config, seed=77)
    pretrained.load_weights(encoder_folder / "model.weights.h5")
    fresh = BertPretrainer(config, seed=12345)
    for mine, theirs, random in zip(
        built[0].model.encoder.get_weights(),
        pretrained.encoder.get_weights(),
        fresh.encoder.get_weights(),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)
        assert not np.array_equal(mine, random)


def dev_examples(folder):
    return read_examples(find_task("classification"), str(folder), "dev")


def probabilities_of(folder, examples) -> np.ndarray:
    """The path of training: the same arrays, the model in eager Keras."""
    from beambert.trainer import model_folders

    found = model_folders.open_model(str(folder), "--model")
    text_features = TextFeatures(
        found.vocabulary, found.do_lower_case, found.training["max_seq_length"]
    )
    labels = found.training["labels"]
    features = make_features("classification", examples, labels, text_features)
    model = BertClassifier(found.config, len(labels), seed=55)
    model.load_weights(folder / "model.weights.h5")
    batch = PaddedBatches(features)(tf.range(len(examples)), int(features.lengths.max()))
    return tf.nn.softmax(model(batch)).numpy()


@pytest.mark.parametrize(
    "kind",
    ["classifier_folder", pytest.param("pair_classifier_folder", marks=pytest.mark.slow)],
)
def test_the_saved_model_answers_like_the_trained_one(kind, request, task_folder, pair_folder):
    folder = request.getfixturevalue(kind)
    examples = dev_examples(pair_folder if kind.startswith("pair") else task_folder)
    texts = {"text": tf.constant([example.text for example in examples])}
    if kind.startswith("pair"):
        texts["text_b"] = tf.constant([example.text_b for example in examples])
    answer = tf.saved_model.load(folder / "saved_model").signatures["serving_default"](**texts)
    expected = probabilities_of(folder, examples)
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    labels = (folder / "labels.txt").read_text().splitlines()
    assert [label.decode() for label in answer["label"].numpy()] == [
        labels[index] for index in expected.argmax(-1)
    ]
    accuracy = np.mean(
        [
            e.label == label.decode()
            for e, label in zip(examples, answer["label"].numpy(), strict=True)
        ]
    )
    assert accuracy == pytest.approx(results(folder)["accuracy"])


@pytest.mark.slow
def test_export_makes_versions_that_load_without_this_project(
    classifier_folder, task_folder, tmp_path, capsys
):
    serving = tmp_path / "serving"
    (serving / "1").mkdir(parents=True)
    export_main([f"--model={classifier_folder}", f"--output={serving}/"])
    assert sorted(path.name for path in serving.iterdir()) == ["1", "2"]
    assert f"{serving}/2: " in capsys.readouterr().out
    examples = dev_examples(task_folder)[:5]
    script = """
        import json, sys, tensorflow as tf, tensorflow_text
        model = tf.saved_model.load(sys.argv[1])
        answer = model.signatures["serving_default"](text=tf.constant(sys.argv[2:]))
        assert not {"keras", "trainer", "model", "pipelines"} & {
            name for name in sys.modules if name in ("trainer", "model", "pipelines")
        }
        print(json.dumps(answer["probabilities"].numpy().tolist()))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(serving / "2")]
    done = subprocess.run(
        [*command, *(example.text for example in examples)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "-1"},
    )
    actual = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(actual, probabilities_of(classifier_folder, examples), atol=1e-5)


@pytest.mark.slow
def test_the_card_of_a_version_loads_it(classifier_folder, tmp_path):
    """Its lines run in the version's folder, without this project."""
    version = export(str(classifier_folder), str(tmp_path / "serving"))
    card = pathlib.Path(version, "README.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=version,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "-1"},
    )
    assert "rebuild TensorFlow" not in done.stderr
    outputs = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    labels = (classifier_folder / "labels.txt").read_text().split()
    probabilities = json.loads(outputs["probabilities"])[0]
    assert outputs["label"] == f"[b'{labels[int(np.argmax(probabilities))]}']"
    assert "| takes `text` |" in card and "| gives `label` |" in card
    assert all(f'"{label}"' in card for label in labels)
    assert f'"accuracy": {results(classifier_folder)["accuracy"]}' in card


def test_a_version_says_which_model_it_is_of(classifier_folder, tmp_path):
    assert served_model(str(tmp_path / "serving")) is None
    model = str(classifier_folder)
    path = export(model, str(tmp_path / "serving"))
    source = {"model": model, "weights_sha256": weights_sha256(model)}
    assert served_model(str(tmp_path / "serving")) == (path, source)
    (tmp_path / "serving" / "2").mkdir()
    with pytest.raises(InputError, match=r"serving/2: does not record its model"):
        served_model(str(tmp_path / "serving"))


def test_two_exports_at_once_are_two_versions(classifier_folder, tmp_path, monkeypatch):
    """The other one takes the number while this one writes."""
    other = tmp_path / "serving" / "1" / "saved_model.pb"

    def take_the_number(*_):
        other.parent.mkdir()
        other.write_text("the other's")

    monkeypatch.setattr("beambert.trainer.serving.versions._write_source", take_the_number)
    assert export(str(classifier_folder), str(tmp_path / "serving")) == f"{tmp_path}/serving/2"
    assert other.read_text() == "the other's"
    assert sorted(path.name for path in (tmp_path / "serving").iterdir()) == ["1", "2"]


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("ours")]
)
def test_an_export_that_fails_leaves_nothing(classifier_folder, tmp_path, monkeypatch, error):
    def fail(module, path, signatures):
        pathlib.Path(path).mkdir()
        pathlib.Path(path, "saved_model.pb").write_text("half")
        raise error

    monkeypatch.setattr("tensorflow.saved_model.save", fail)
    (tmp_path / "1").mkdir()
    with pytest.raises(InputError if isinstance(error, OSError) else type(error)) as caught:
        export(str(classifier_folder), str(tmp_path))
    if isinstance(error, OSError):
        assert (
            str(caught.value)
            == f"{tmp_path}: cannot be written ([Errno 28] No space left on device)"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["1"]


def test_what_a_killed_export_left_is_deleted(classifier_folder, tmp_path, capsys):
    (tmp_path / "_tmp-0123-1").mkdir()
    export_main([f"--model={classifier_folder}", f"--output={tmp_path}"])
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    assert "left by" not in capsys.readouterr().out


def test_export_of_an_encoder(encoder_folder, tmp_path, small_config):
    export_main([f"--model={encoder_folder}", f"--output={tmp_path}"])
    encode = tf.saved_model.load(tmp_path / "1").signatures["serving_default"]
    answer = encode(text=tf.constant(["The river.", "", "people " * 50]))
    width = small_config.hidden_size
    assert answer["sequence_output"].shape == (3, 32, width)
    assert answer["pooled_output"].shape == (3, width)
    assert answer["input_mask"].numpy().sum(axis=1).tolist() == [5, 2, 32]


def test_export_answers_a_text(classifier_folder, tmp_path, capsys):
    export_main([f"--model={classifier_folder}", f"--output={tmp_path}", "--text=River city!"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3] == '"River city!"' and lines[-2].endswith("good")


def export_refusal(model, output, *more: str) -> str:
    names = sorted(path.name for path in output.iterdir()) if output.exists() else None
    with pytest.raises(InputError) as caught:
        export_main([f"--model={model}", f"--output={output}", *more])
    assert names == (sorted(path.name for path in output.iterdir()) if output.exists() else None)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_export_to_a_foreign_folder_is_refused(classifier_folder, tmp_path):
    (tmp_path / "thesis.doc").write_text("years of work")
    message = export_refusal(classifier_folder, tmp_path)
    assert "--output=" in message and "thesis.doc" in message


def test_export_to_a_file_is_refused(classifier_folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--output="):
        export_main([f"--model={classifier_folder}", f"--output={tmp_path}/file"])


@pytest.fixture
def write_evaluation(tmp_path):
    def write(model, blessed: bool) -> pathlib.Path:
        folder = tmp_path / "evaluation"
        folder.mkdir()
        metrics = {"model": str(model), "model_sha256": model_sha256(str(model))}
        (folder / "metrics.json").write_text(json.dumps(metrics))
        if blessed:
            (folder / "BLESSED").write_text("")
        return folder

    return write


def test_export_needs_the_blessing_asked_for(classifier_folder, tmp_path, write_evaluation):
    evaluation = write_evaluation(classifier_folder, blessed=False)
    serving = tmp_path / "serving"
    message = export_refusal(classifier_folder, serving, f"--evaluation={evaluation}")
    assert "did not bless" in message
    (evaluation / "BLESSED").write_text("")
    check_blessing(str(evaluation), str(classifier_folder))


def test_a_moved_model_keeps_its_blessing(classifier_folder, tmp_path, write_evaluation):
    evaluation = write_evaluation(classifier_folder, blessed=True)
    moved = shutil.copytree(classifier_folder, tmp_path / "moved")
    check_blessing(str(evaluation), str(moved))


@pytest.mark.parametrize(
    "changed",
    ["model.weights.h5", "saved_model/*.pb", "saved_model/variables/*.data-*", "vocab.txt"],
)
def test_a_blessing_of_earlier_files_does_not_count(
    classifier_folder, tmp_path, write_evaluation, changed
):
    model = shutil.copytree(classifier_folder, tmp_path / "model")
    evaluation = write_evaluation(model, blessed=True)
    path = max(model.glob(changed))  # saved_model.pb is behind fingerprint.pb
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    message = export_refusal(model, tmp_path / "serving", f"--evaluation={evaluation}")
    assert "evaluated other files" in message and "evaluate again" in message


def test_a_blessing_of_another_model_does_not_count(
    classifier_folder, encoder_folder, tmp_path, write_evaluation
):
    evaluation = write_evaluation(encoder_folder, blessed=True)
    message = export_refusal(classifier_folder, tmp_path / "serving", f"--evaluation={evaluation}")
    assert str(encoder_folder) in message and str(classifier_folder) in message


@pytest.mark.parametrize("content", [None, "{", "{}"])
def test_a_damaged_evaluation_does_not_count(classifier_folder, tmp_path, content):
    if content is not None:
        (tmp_path / "evaluation").mkdir()
        (tmp_path / "evaluation" / "metrics.json").write_text(content)
    message = export_refusal(
        classifier_folder, tmp_path / "serving", f"--evaluation={tmp_path}/evaluation"
    )
    assert "--evaluation=" in message


@pytest.mark.slow
def test_a_text_for_what_gives_no_label_is_refused_before_writing(
    encoder_folder, pair_classifier_folder, tmp_path
):
    for model in (encoder_folder, pair_classifier_folder):
        assert "--text" in export_refusal(model, tmp_path / "serving", "--text=Hello")


@pytest.mark.parametrize("bytes_kept", [0, 1000, -1000])
def test_damaged_weights_are_refused(classifier_folder, tmp_path, bytes_kept):
    copy = shutil.copytree(classifier_folder, tmp_path / "copy")
    path = copy / "model.weights.h5"
    path.write_bytes(path.read_bytes()[:bytes_kept])
    message = export_refusal(copy, tmp_path / "serving")
    assert f"{path}: cannot be loaded" in message


def test_weights_of_another_model_are_refused(classifier_folder, encoder_folder, tmp_path):
    copy = shutil.copytree(classifier_folder, tmp_path / "copy")
    shutil.copy(encoder_folder / "model.weights.h5", copy)
    message = export_refusal(copy, tmp_path / "serving")
    assert "model.weights.h5: cannot be loaded" in message


@pytest.fixture
def refusal(task_folder, encoder_folder, tmp_path):
    def run(data_dir=task_folder, init=encoder_folder, **others) -> str:
        model_dir = tmp_path / "model"
        with pytest.raises(InputError) as caught:
            finetune_main(flags(data_dir, init, model_dir, **others))
        assert not model_dir.exists()
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return run


@pytest.fixture
def copied_task(task_folder, tmp_path):
    return shutil.copytree(task_folder, tmp_path / "task")


def test_missing_dev_file_is_refused(refusal, copied_task):
    (copied_task / "dev.tsv").unlink()
    assert "dev.tsv" in refusal(data_dir=copied_task)


def test_label_that_training_lacks_is_refused(refusal, copied_task):
    with (copied_task / "dev.tsv").open("a") as file:
        file.write("The river\tterrible\n")
    message = refusal(data_dir=copied_task)
    assert "dev.tsv, line 63" in message and "'terrible'" in message


def test_pairs_in_one_split_only_are_refused(refusal, copied_task, pair_folder):
    text = (pair_folder / "dev.tsv").read_text().replace("\todd\n", "\tbad\n")
    (copied_task / "dev.tsv").write_text(text)
    message = refusal(data_dir=copied_task)
    assert "dev.tsv" in message and "text_b" in message


def test_fewer_examples_than_a_batch(refusal):
    assert "--train_batch_size=512" in refusal(train_batch_size=512)


def test_unfinished_encoder_is_refused(refusal, encoder_folder, tmp_path):
    copy = shutil.copytree(encoder_folder, tmp_path / "encoder")
    (copy / "_SUCCESS").unlink()
    message = refusal(init=copy)
    assert f"--init={copy}" in message and "_SUCCESS" in message


def test_missing_encoder_is_refused(refusal, tmp_path):
    assert f"--init={tmp_path}/no: no such folder" in refusal(init=tmp_path / "no")


def test_classifier_as_encoder_is_refused(refusal, classifier_folder):
    assert f"--init={classifier_folder}" in refusal(init=classifier_folder)


def test_damaged_encoder_weights_are_refused(encoder_folder, task_folder, tmp_path):
    copy = shutil.copytree(encoder_folder, tmp_path / "encoder")
    (copy / "model.weights.h5").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"model\.weights\.h5: cannot be loaded"):
        finetune_main(flags(task_folder, copy, tmp_path / "model"))


@pytest.mark.parametrize("length", [33, 7, 0])
def test_impossible_length_is_refused(refusal, length):
    message = refusal(max_seq_length=length)
    assert f"--max_seq_length={length}" in message and "32" in message


def test_unknown_task_is_refused(refusal):
    assert "--task=poetry" in refusal(task="poetry")


def test_random_weights_need_a_model_and_a_vocabulary(refusal):
    message = refusal(init="random")
    assert message.startswith("--init=random: random weights also need --model, a size")
    message = refusal(init="random", model="tiny")
    assert message.startswith("--init=random: random weights also need --vocab_file, the voc")


@pytest.mark.parametrize(
    ("flag", "value"), [("model", "tiny"), ("vocab_file", "v.txt"), ("do_lower_case", False)]
)
def test_what_an_encoder_decides_is_refused(refusal, flag, value):
    message = refusal(**{flag: value})
    assert f"--{flag}={value}" in message and "--init=random" in message


@pytest.mark.parametrize(
    ("flag", "value"),
    [("num_train_epochs", 0), ("num_train_epochs", "nan"), ("warmup_proportion", 1)],
)
def test_impossible_numbers_are_refused(refusal, flag, value):
    assert f"--{flag}" in refusal(**{flag: value})


def test_the_same_command_again_has_nothing_to_do(
    classifier_folder, task_folder, encoder_folder, capsys
):
    finetune_main(flags(task_folder, encoder_folder, classifier_folder))
    assert "already finished" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"there 0\.003, here 0\.001"):
        finetune_main(flags(task_folder, encoder_folder, classifier_folder, learning_rate=1e-3))


def test_corrected_labels_and_a_retrained_encoder_are_another_job(
    classifier_folder, task_folder, encoder_folder, tmp_path
):
    for split in ("train", "dev"):
        corrected = shutil.copytree(task_folder, tmp_path / split)
        first, *rest = (corrected / f"{split}.tsv").read_text().splitlines()[1:]
        first = first.replace("\tgood", "\tBAD").replace("\tbad", "\tgood").replace("BAD", "bad")
        (corrected / f"{split}.tsv").write_text("\n".join(["text\tlabel", first, *rest]) + "\n")
        with pytest.raises(InputError, match=rf"another job .the {split} file of --data_dir is an"):
            finetune_main(flags(corrected, encoder_folder, classifier_folder))
    retrained = shutil.copytree(encoder_folder, tmp_path / "encoder")
    with (retrained / "model.weights.h5").open("ab") as file:
        file.write(b"more")
    with pytest.raises(InputError, match=r"another job .--init is another one"):
        finetune_main(flags(task_folder, retrained, classifier_folder))


def test_the_same_job_at_other_places_has_nothing_to_do(
    classifier_folder, task_folder, encoder_folder, tmp_path, capsys
):
    data = shutil.copytree(task_folder, tmp_path / "task")
    encoder = shutil.copytree(encoder_folder, tmp_path / "encoder")
    finetune_main(flags(data, encoder, classifier_folder, save_checkpoints_steps=7))
    assert "already finished" in capsys.readouterr().out
