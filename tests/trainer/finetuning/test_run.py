"""Fine-tuning end to end, by changes of a low rank, and on questions."""

import collections
import dataclasses
import json
import shutil
import types

import numpy as np
import pytest
import safetensors.numpy
from support.small_finetuning import flags, results

import beambert
from beambert.errors import InputError
from beambert.pipelines.tasks.declarations import find_task
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.finetuning import job
from beambert.trainer.finetuning import run as finetuning_run
from beambert.trainer.loop.config import TrainingFolders
from beambert.trainer.tasks.span import SpanData
from beambert.trainer.weights.initial import open_initial

# As a user trains.
WITH_XLA = True


def test_learns_a_separable_task(classifier_folder):
    assert results(classifier_folder)["accuracy"] > 0.95
    assert (classifier_folder / "labels.txt").read_text() == "bad\ngood\n"
    assert (classifier_folder / "_SUCCESS").exists()


@pytest.mark.parametrize(
    ("task", "early_stopping", "patience"),
    [
        ("classification", None, 10),  # 10 updates an epoch
        ("classification", False, None),
        ("rte", None, None),
        ("rte", True, 10),
    ],
)
def test_own_tasks_stop_early_and_published_ones_keep_their_recipe(
    task, early_stopping, patience, small_config
):
    asked = job.FinetuningJob(
        task=find_task(task),
        data_dir="data",
        init="encoder",
        output=TrainingFolders("model"),
        early_stopping=early_stopping,
    )
    for width, rate in ((128, 1e-3), (768, 5e-5)):
        config = dataclasses.replace(small_config, hidden_size=width)
        optimizer, loop = job._schedule(asked, 320, config)
        assert (optimizer.learning_rate, loop.patience) == (rate, patience)
        assert loop.best_metric == "accuracy"
        expected = 300 if task == "classification" else 30
        assert (optimizer.num_train_steps, loop.eval_steps) == (expected, 10)
        data = types.SimpleNamespace(counts={job.TRAIN: 320})
        of_plan = {"job": asked, "optimizer": optimizer, "loop": loop, "config": config}
        told = finetuning_run._describe_recipe(types.SimpleNamespace(**of_plan, data=data))
        # Ten epochs after the best one are more than RTE's three.
        assert ("stops after 10 epochs" in told) == (patience == 10 and expected == 300)


@pytest.mark.parametrize("patience", [None, 3])
def test_answers_are_scored_in_the_order_of_the_examples(patience):
    """They come shortest first, with rows that fill up the last batch."""
    scored = []

    def results(outputs):
        scored.append(outputs["probabilities"].tolist())
        return {"f1": 0.5, "accuracy": 0.75, "further": 1.0}

    features = types.SimpleNamespace(example_lengths=np.array([5, 1, 3]), targets={})
    run = object.__new__(finetuning_run._Finetuning)
    run._plan = types.SimpleNamespace(loop=types.SimpleNamespace(patience=patience))
    task = types.SimpleNamespace(metrics=("f1", "accuracy"))
    run._data = types.SimpleNamespace(features=lambda _: features, results=results, task=task)
    found = run._score({"probabilities": np.array([[1.0], [3.0], [5.0], [0.0]])})
    assert run.outputs["probabilities"].tolist() == [[5.0], [1.0], [3.0]]
    # Without early stopping nobody needs the scores before the end.
    assert found == ({"f1": 0.5, "accuracy": 0.75} if patience else {})
    assert scored == ([[[5.0], [1.0], [3.0]]] if patience else [])


def test_the_baseline_is_the_commonest_label(classifier_folder, task_folder):
    labels = {
        split: [line.split("\t")[-1] for line in (task_folder / f"{split}.tsv").open()][1:]
        for split in ("train", "dev")
    }
    ((commonest, _),) = collections.Counter(labels["train"]).most_common(1)
    expected = labels["dev"].count(commonest) / len(labels["dev"])
    assert results(classifier_folder)["baseline_accuracy"] == pytest.approx(expected)


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


def test_unfinished_encoder_is_refused(refusal, encoder_folder, tmp_path):
    copy = shutil.copytree(encoder_folder, tmp_path / "encoder")
    (copy / "_SUCCESS").unlink()
    message = refusal(init=copy)
    assert f"--init={copy}" in message and "_SUCCESS" in message


@pytest.mark.parametrize(
    ("flag", "value"), [("model", "tiny"), ("vocab_file", "v.txt"), ("do_lower_case", False)]
)
def test_what_an_encoder_decides_is_refused(refusal, flag, value):
    message = refusal(**{flag: value})
    assert f"--{flag}={value}" in message and "--init=random" in message


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
        with pytest.raises(InputError, match=rf"another job .data_sha256.{split} is another"):
            finetune_main(flags(corrected, encoder_folder, classifier_folder))
    retrained = shutil.copytree(encoder_folder, tmp_path / "encoder")
    file = retrained / "model.safetensors"
    arrays = safetensors.numpy.load_file(file)
    safetensors.numpy.save_file({name: 2 * array for name, array in arrays.items()}, file)
    with pytest.raises(InputError, match=r"another job .*init_sha256 is another one"):
        finetune_main(flags(task_folder, retrained, classifier_folder))


def test_the_same_job_at_other_places_has_nothing_to_do(
    classifier_folder, task_folder, encoder_folder, tmp_path, capsys
):
    data = shutil.copytree(task_folder, tmp_path / "task")
    encoder = shutil.copytree(encoder_folder, tmp_path / "encoder")
    finetune_main(flags(data, encoder, classifier_folder, save_checkpoints_steps=7))
    assert "already finished" in capsys.readouterr().out


RANK = 2
KERNEL = "bert/pooler/dense/kernel"
POOLER = {KERNEL, "bert/pooler/dense/bias"}


def weights(folder) -> dict[str, np.ndarray]:
    """The arrays of a model folder's encoder by name."""
    found = safetensors.numpy.load_file(folder / "model.safetensors")
    return {name: array for name, array in found.items() if name.startswith("bert/")}


@pytest.fixture(scope="module")
def lora_folder(task_folder, encoder_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lora") / "model"
    given = {"num_train_epochs": 6, "lora_rank": RANK}
    finetune_main(flags(task_folder, encoder_folder, folder, **given))
    return folder


@pytest.mark.slow
def test_it_learns_changes_of_this_rank_in_dense_layers_and_the_whole_pooler(
    lora_folder, encoder_folder
):
    assert results(lora_folder)["accuracy"] > 0.95
    before, after = weights(encoder_folder), weights(lora_folder)
    assert before.keys() == after.keys()
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    assert changed == POOLER | {
        name for name in after if after[name].ndim == 2 and "/embeddings/" not in f"/{name}"
    }
    for name in changed - POOLER:
        singular = np.linalg.svd(after[name] - before[name], compute_uv=False)
        assert singular[RANK - 1] > 1e-4 > 10 * singular[RANK], name
    assert np.linalg.matrix_rank(after[KERNEL] - before[KERNEL]) > 10 * RANK


@pytest.mark.slow
def test_the_merged_model_answers_as_the_trained_one(lora_folder, task_folder):
    rows = [line.split("\t") for line in (task_folder / "dev.tsv").read_text().splitlines()[1:]]
    answers = beambert.load(str(lora_folder)).predict([text for text, _ in rows])
    right = [answer["label"] == label for answer, (_, label) in zip(answers, rows, strict=True)]
    assert np.mean(right) == pytest.approx(results(lora_folder)["accuracy"])


@pytest.mark.slow
def test_the_adapter_has_what_was_learnt(lora_folder, encoder_folder):
    """As PEFT reads it: A and B by the names of `transformers`, the pooler and head whole."""
    arrays = safetensors.numpy.load_file(lora_folder / "adapter" / "adapter_model.safetensors")
    config = json.loads((lora_folder / "adapter" / "adapter_config.json").read_text())
    assert config["r"] == RANK and config["modules_to_save"] == ["classifier", "pooler"]
    name = "base_model.model.bert.encoder.layer.0.attention.self.query.lora_{}.weight"
    first, second = (arrays[name.format(letter)] for letter in "AB")
    before, after = weights(encoder_folder), weights(lora_folder)
    [kernel] = [path for path in after if "query" in path and after[path].ndim == 2 and "0" in path]
    change = (second @ first).T * config["lora_alpha"] / RANK
    np.testing.assert_allclose(after[kernel] - before[kernel], change, atol=1e-6)
    assert len(config["target_modules"]) == len(set(config["target_modules"]))
    assert len(arrays) == 2 * len(config["target_modules"]) + 4
    pooler = arrays["base_model.model.bert.pooler.dense.weight"]
    np.testing.assert_array_equal(after[KERNEL].T, pooler)


@pytest.mark.slow
def test_a_training_from_a_fine_tuned_model_takes_its_encoder_and_not_its_head(lora_folder):
    taken, there = open_initial(str(lora_folder), "--init").read(), weights(lora_folder)

    def total(arrays):
        return sorted(float(np.sum(array, dtype=np.float64)) for array in arrays)

    assert total(taken.values()) == total(there.values())


def test_a_frozen_encoder_has_no_changes(task_folder, encoder_folder, tmp_path):
    both = ["--lora_rank=2", "--freeze_encoder"]
    with pytest.raises(InputError, match="--lora_rank=2: "):
        finetune_main([*flags(task_folder, encoder_folder, tmp_path / "model"), *both])


@pytest.mark.slow
def test_an_encoder_is_continued_by_changes_of_a_rank(encoder_folder, records_folder, tmp_path):
    given = {"init": encoder_folder, "data": records_folder, "model_dir": tmp_path / "model"}
    given |= {"num_train_steps": 20, "train_batch_size": 16, "lora_rank": RANK}
    pretrain_main([f"--{name}={value}" for name, value in given.items()])
    before, after = weights(encoder_folder), weights(tmp_path / "model")
    assert before.keys() == after.keys()
    arrays = safetensors.numpy.load_file(tmp_path / "model/adapter/adapter_model.safetensors")
    assert {name.split(".")[2] for name in arrays} == {"encoder", "pooler"}  # and no head
    for name in after.keys() - POOLER:
        if after[name].ndim == 2 and "/embeddings/" not in f"/{name}":
            singular = np.linalg.svd(after[name] - before[name], compute_uv=False)
            assert singular[RANK - 1] > 10 * singular[RANK], name
        elif after[name].ndim == 2:
            np.testing.assert_array_equal(before[name], after[name])


PLACES = ("river", "city", "war", "house")
FILLER = ("the", "a", "year", "people")


def write(folder, split, count, seed):
    """The answer is the word behind "in"; no "in", no answer."""
    random, paragraphs = np.random.default_rng(seed), []
    for number in range(count):
        words = list(random.choice(FILLER, random.integers(4, 30)))
        place, where = random.choice(PLACES), random.integers(0, len(words))
        is_impossible = bool(number % 4 == 0)
        before = " ".join(words[:where])
        context = " ".join([*words[:where], *(() if is_impossible else ("in", place)), "died"])
        start = len(f"{before} in " if before else "in ")
        answers = [] if is_impossible else [{"text": str(place), "answer_start": start}]
        question = {"id": f"{split}{number}", "question": "where died the people?"}
        question |= {"answers": answers, "is_impossible": is_impossible}
        paragraphs.append({"context": context, "qas": [question]})
    data = {"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}
    (folder / f"{split}-v2.0.json").write_text(json.dumps(data))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("squad")
    write(folder, "train", 240, seed=1)
    write(folder, "dev", 40, seed=2)
    return folder


def test_the_task_decides_whether_there_may_be_no_answer(data, tmp_path):
    content = json.loads((data / "train-v2.0.json").read_text())
    paragraphs = content["data"][0]["paragraphs"]
    content["data"][0]["paragraphs"] = [
        paragraph for paragraph in paragraphs if paragraph["qas"][0]["answers"]
    ]
    for version in ("v1.1", "v2.0"):
        for split in ("train", "dev"):
            (tmp_path / f"{split}-{version}.json").write_text(json.dumps(content))
    version_2 = SpanData(find_task("squad2.0"), str(tmp_path))
    known, impossible = version_2.problems()
    assert "no question is marked as impossible" in impossible
    assert "dev-v2.0.json: 180 of 180 examples have the text of an example of" in known
    # As the official scorer of each version, whatever the file has.
    assert "official_HasAns_f1" in version_2.baseline()
    version_1 = SpanData(find_task("squad1.1"), str(tmp_path))
    assert "official_exact_match" in version_1.baseline() and len(version_1.problems()) == 1
    (tmp_path / "dev-v1.1.json").write_bytes((data / "dev-v2.0.json").read_bytes())
    with pytest.raises(InputError, match="10 of 40 questions are impossible.*the task squad2.0"):
        SpanData(find_task("squad1.1"), str(tmp_path))
