"""Fine-tuning on features that `beambert features` made: bit for bit the same; and TFX's run_fn."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("apache_beam", reason="the features are made by Beam")

from beambert.errors import InputError
from beambert.pipelines import create_task_features
from beambert.pipelines.storage.model_files import weights_sha256
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.tfx_module import run_fn

WORDS = ("river", "city", "war", "house", "music")
LENGTH = 16


def phrase(random, size=8) -> str:
    return " ".join(random.choice(WORDS, random.integers(1, size)))


@pytest.fixture(scope="module")
def data(tmp_path_factory, vocabulary):
    """A folder of tags and one of questions."""
    root, random = tmp_path_factory.mktemp("data"), np.random.default_rng(2)
    (root / "vocab.txt").write_bytes(vocabulary.serialize())
    for split, count in (("train", 24), ("dev", 8)):
        sentences, questions = [], []
        context = "the old city by the river was known in the world for music and song . " * 2
        for number in range(count):
            words = phrase(random, 30).split()
            sentences.append("".join(f"{w} {'B-X' if w == 'war' else 'O'}\n" for w in words))
            answer = random.choice(["river", "music and song", "world"])
            found = [{"text": answer, "answer_start": context.index(answer)}]
            question = {"id": str(number), "question": phrase(random)}
            question |= {"answers": found[: number % 3], "is_impossible": number % 3 == 0}
            questions.append(question)
        paragraphs = [{"context": context, "qas": questions}]
        for kind in ("tagging", "squad2.0"):
            (root / kind).mkdir(exist_ok=True)
        (root / "tagging" / f"{split}.conll").write_text("\n".join(sentences))
        text = json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]})
        (root / "squad2.0" / f"{split}-v2.0.json").write_text(text)
    return root


@pytest.fixture(scope="module")
def features(data, tmp_path_factory):
    made = {}

    def make(kind):
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("features") / kind
            create_task_features.main(
                [
                    *(f"--task={kind}", f"--data_dir={data / kind}", f"--output={made[kind]}"),
                    *(f"--vocab_file={data / 'vocab.txt'}", f"--max_seq_length={LENGTH}"),
                ]
            )
        return made[kind]

    return make


@pytest.fixture(scope="module")
def flags(data, small_config_file):
    def of(kind, **more) -> dict[str, object]:
        return {
            "task": kind,
            "data_dir": data / kind,
            "init": "random",
            "model": small_config_file,
            "vocab_file": data / "vocab.txt",
            "max_seq_length": LENGTH,
            "train_batch_size": 8,
            "num_train_epochs": 1,
        } | more

    return of


def finetune(folder, values):
    finetune_main([f"--{name}={value}" for name, value in (values | {"model_dir": folder}).items()])
    return folder


def assert_same_models(one, other):
    assert weights_sha256(str(one)) == weights_sha256(str(other))
    for name in ("results.json", "training.json", "_SUCCESS"):
        assert (one / name).read_text() == (other / name).read_text()


@pytest.fixture(scope="module")
def without_features(flags, tmp_path_factory):
    made = {}

    def make(kind):
        if kind not in made:
            made[kind] = finetune(tmp_path_factory.mktemp("model") / kind, flags(kind))
        return made[kind]

    return make


@pytest.mark.release
def test_same_model_and_results(features, flags, without_features, tmp_path):
    """Questions, whose dev windows are made here all the same; for tags see test_run_fn."""
    model = finetune(tmp_path / "model", flags("squad2.0", features=features("squad2.0")))
    assert_same_models(model, without_features("squad2.0"))


@pytest.mark.release
def test_the_length_is_that_of_the_features(features, flags, small_config_file, tmp_path):
    given = flags("tagging", features=features("tagging"), max_seq_length=None)
    model = finetune(tmp_path / "model", {n: each for n, each in given.items() if each is not None})
    assert json.loads((model / "training.json").read_text())["max_seq_length"] == LENGTH
    short = json.loads(small_config_file.read_text()) | {"max_position_embeddings": 12}
    (tmp_path / "short.json").write_text(json.dumps(short))
    given["model"] = tmp_path / "short.json"
    with pytest.raises(
        InputError, match=r"--features=.* made with --max_seq_length=16: .* most 12"
    ):
        finetune(tmp_path / "other", {n: each for n, each in given.items() if each is not None})


@pytest.mark.slow
def test_other_features_are_refused(features, flags, tmp_path):
    for others, message in (
        ({"max_seq_length": 12}, r"max_seq_length there 16, here 12"),
        ({"features": features("squad2.0")}, r"--task there \"squad2\.0\", here \"tagging\""),
        ({"features": tmp_path}, "not a finished features folder"),
    ):
        given = flags("tagging", **({"features": features("tagging")} | others))
        with pytest.raises(InputError, match=message):
            finetune(tmp_path / "model", given)
    assert not (tmp_path / "model").exists()


@pytest.mark.release
def test_run_fn(features, flags, without_features, tmp_path, monkeypatch):
    """What TFX's Trainer would give: strings and patterns, folders that are to be filled."""
    expected = without_features("tagging")

    def refuse(*_):
        raise AssertionError("tokenized here")

    monkeypatch.setattr("beambert.trainer.finetuning.data.make_features", refuse)
    folder = features("tagging")
    config = flags("tagging", features=folder)
    run_fn(
        types.SimpleNamespace(
            train_files=[f"{folder}/train/*"],
            eval_files=[f"{folder}/dev/*"],
            schema_path=f"{folder}/schema.pbtxt",
            custom_config={name: str(value) for name, value in config.items()}
            | {"skip_bad_rows": False, "freeze_encoder": False, "tpu": None},
            serving_model_dir=str(tmp_path / "serving"),
            model_run_dir=str(tmp_path / "run"),
        )
    )
    assert_same_models(tmp_path / "run", expected)
    assert list((tmp_path / "run" / "tensorboard").rglob("events*"))
    answer = tf.saved_model.load(tmp_path / "serving").signatures["serving_default"]
    assert answer(text=tf.constant(["the river"]))["tags"].shape == (1, 2)


@pytest.mark.slow
def test_run_fn_refuses_another_schema(features, flags, tmp_path):
    config = flags("tagging", features=features("tagging"))
    arguments = types.SimpleNamespace(
        train_files=["nowhere/*"],
        eval_files=["nowhere/*"],
        schema_path=f"{features('squad2.0')}/schema.pbtxt",
        custom_config=config,
        serving_model_dir=str(tmp_path / "serving"),
        model_run_dir=str(tmp_path / "run"),
    )
    with pytest.raises(InputError, match="schema_path=.* is not the schema of a tagging task"):
        run_fn(arguments)
    arguments.schema_path = f"{features('tagging')}/schema.pbtxt"
    with pytest.raises(InputError, match=r"nowhere/\* match no file"):
        run_fn(arguments)
