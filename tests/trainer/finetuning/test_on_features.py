"""Fine-tuning on features that `beambert features` made: bit for bit the same."""

import json

import numpy as np
import pytest

pytest.importorskip("apache_beam", reason="the features are made by Beam")

from beambert.errors import InputError
from beambert.model_files import weights_sha256
from beambert.pipelines import create_task_features
from beambert.trainer.commands.finetune import main as finetune_main

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
@pytest.mark.parametrize("task", ["tagging", "squad2.0"])
def test_same_model_and_results(features, flags, without_features, tmp_path, task):
    """The windows of questions on dev are made here all the same."""
    model = finetune(tmp_path / "model", flags(task, features=features(task)))
    assert_same_models(model, without_features(task))


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
