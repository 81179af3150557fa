"""Encoders with a byte-level BPE, from records to answers: the tokenizer goes all the way."""

import itertools
import json
import math
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from support import small_finetuning, small_pretraining
from support.sample_text import WORDS
from support.tokenizer_kinds import MODERNBERT, ROBERTA, train
from tokenizers import Tokenizer

from beambert import saved_models
from beambert.errors import InputError
from beambert.model.config import BertConfig
from beambert.pipelines.create_pretraining_data import main as data_main
from beambert.pipelines.tasks import saved_models as prediction_models
from beambert.pipelines.tasks.find_model import find_model
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.model_folders import open_model

pytestmark = pytest.mark.slow
LENGTH = 32


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> pathlib.Path:
    """Records of two tokenizers, and an encoder of the first."""
    root = tmp_path_factory.mktemp("tokenizers")
    random = np.random.default_rng(1)
    documents = [" ".join(random.choice(WORDS, 40)).capitalize() + "." for _ in range(150)]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in documents)
    (root / "text.jsonl").write_text(lines)
    for kind in (ROBERTA, MODERNBERT):
        (root / kind).mkdir()
        train(kind, documents, 400).save(str(root / kind / "tokenizer.json"))
        data_main(
            [
                *(f"--input={root / 'text.jsonl'}", f"--tokenizer={root / kind}"),
                *(f"--output={root / f'{kind}-records'}", f"--max_seq_length={LENGTH}"),
                *("--dupe_factor=2", "--max_predictions_per_seq=5", "--num_shards=1"),
            ]
        )
    config = BertConfig(400, 16, 1, 2, 32, max_position_embeddings=64)
    (root / "bert_config.json").write_text(config.to_json())
    pretrain_main(flags(root, "encoder"))
    return root


def flags(root, folder, **others) -> list[str]:
    records, config = root / f"{ROBERTA}-records", root / "bert_config.json"
    given = {"masking": "dynamic"} | others
    return small_pretraining.flags(records, config, root / folder, **given)


def fine_tune(root, task, data_dir, **others) -> pathlib.Path:
    folder = root / f"model-{task}"
    settings = {"task": task, "num_train_epochs": 1, "max_seq_length": LENGTH} | others
    finetune_main(small_finetuning.flags(data_dir, root / "encoder", folder, **settings))
    return folder


def test_the_encoder_has_the_tokenizer_of_its_records(root):
    found = open_model(str(root / "encoder"), "--model")
    given = (root / ROBERTA / "tokenizer.json").read_bytes()
    assert (root / "encoder" / "tokenizer.json").read_bytes() == given
    assert found.vocabulary.tokens_by_role()["mask"] == "<mask>"
    assert not found.do_lower_case


def test_records_of_another_tokenizer_are_refused(root, tmp_path):
    records = root / f"{MODERNBERT}-records"
    given = flags(root, tmp_path / "other", data=records, init=root / "encoder", model=None)
    with pytest.raises(InputError, match=r"--data=.*: its tokenizer is \w{12}, that of --init=.*"):
        pretrain_main(given)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def classifier(root) -> pathlib.Path:
    data_dir = small_finetuning.write_task(root / "task", pairs=True)
    return fine_tune(root, "classification", data_dir)


def test_a_pair_is_answered_as_the_library_frames_it(root, classifier):
    """The model's graph on ids that the library makes equals the answer to the texts."""
    found = find_model(str(classifier))
    text, other = "The river ended in the old city.", "Music was played."
    answered = saved_models.call_on_texts(
        prediction_models.load(found), [{"text": text, "text_b": other}]
    )
    encoded = Tokenizer.from_file(str(root / ROBERTA / "tokenizer.json")).encode(text, other)
    assert len(encoded.ids) <= LENGTH
    pad = LENGTH - len(encoded.ids)
    ids = np.array([encoded.ids + [1] * pad], np.int32)
    mask = np.array([[1] * len(encoded.ids) + [0] * pad], np.int32)
    graph = tf.saved_model.load(str(classifier / "saved_model"))
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    expected = saved_models.call(graph, inputs)
    np.testing.assert_allclose(answered["probabilities"], expected["probabilities"], atol=1e-6)


def test_random_weights_with_a_tokenizer(root, classifier, tmp_path):
    data_dir = small_finetuning.write_task(tmp_path / "task", pairs=False)
    given = data_dir, "random", tmp_path / "model"
    others = {"model": root / "bert_config.json", "num_train_epochs": 1, "max_seq_length": 16}
    finetune_main(small_finetuning.flags(*given, tokenizer=root / ROBERTA, **others))
    found = open_model(str(tmp_path / "model"), "--model")
    assert found.vocabulary.sha256 == open_model(str(classifier), "--model").vocabulary.sha256


@pytest.mark.release
def test_tags_have_a_token_for_each_word(root):
    data_dir = root / "tags"
    data_dir.mkdir()
    random = np.random.default_rng(2)
    for split in ("train", "dev"):
        sentences = []
        for _ in range(40):
            words = random.choice(WORDS, 6)
            sentences.append("".join(f"{w} {'B-X' if w < 'm' else 'O'}\n" for w in words))
        (data_dir / f"{split}.conll").write_text("\n".join(sentences))
    folder = fine_tune(root, "tagging", data_dir, num_train_epochs=20)
    found = find_model(str(folder))
    texts = [{"text": "river city"}, {"text": "The war ended in another village"}]
    outputs = saved_models.call_on_texts(prediction_models.load(found), texts)
    tags = [[tag.decode() for tag in row if tag] for row in outputs["tags"]]
    assert [len(one_tag) for one_tag in tags] == [2, 6]
    assert {tag for one_tag in tags for tag in one_tag} <= {"B-X", "O"}
    results = json.loads((folder / "results.json").read_text())
    assert all(math.isfinite(value) for value in results.values())


@pytest.mark.release
def test_endings_are_chosen(root):
    data_dir = root / "choice"
    data_dir.mkdir()
    rows = ["text,text_b,choice_0,choice_1,label"]
    rows += [
        f"The year,people,{a},{b},{n % 2}" for n, (a, b) in enumerate(itertools.pairwise(WORDS))
    ]
    for split in ("train", "dev"):
        (data_dir / f"{split}.csv").write_text("\n".join(rows) + "\n")
    folder = fine_tune(root, "choice", data_dir)
    found = find_model(str(folder))
    given = {"text": "The year", "text_b": "people", "choices": ("won", "lost it all")}
    outputs = saved_models.call_on_texts(prediction_models.load(found), [given])
    reference = Tokenizer.from_file(str(root / ROBERTA / "tokenizer.json"))
    ids = np.full((1, 2, LENGTH), 1, np.int32)
    mask = np.zeros_like(ids)
    for number, ending in enumerate(given["choices"]):
        framed = reference.encode("The year", f"people {ending}").ids
        ids[0, number, : len(framed)] = framed
        mask[0, number, : len(framed)] = 1
    graph = tf.saved_model.load(str(folder / "saved_model"))
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    expected = saved_models.call(graph, inputs)
    np.testing.assert_allclose(outputs["probabilities"], expected["probabilities"], atol=1e-6)


@pytest.mark.release
def test_questions_are_answered_with_the_words_of_their_contexts(root):
    data_dir = root / "questions"
    data_dir.mkdir()
    context = "The river began in the north. It ended in the old city."
    asked = [
        {
            "id": str(n),
            "question": f"Where did it {verb}?",
            "answers": [{"text": answer, "answer_start": context.index(answer)}],
        }
        for n, (verb, answer) in enumerate([("begin", "the north"), ("end", "the old city")] * 20)
    ]
    paragraphs = [{"context": context, "qas": asked}]
    written = json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]})
    for split in ("train-v1.1.json", "dev-v1.1.json"):
        (data_dir / split).write_text(written)
    folder = fine_tune(root, "squad1.1", data_dir, max_seq_length=64, num_train_epochs=30)
    found = find_model(str(folder))
    given = [{"question": one["question"], "context": context} for one in asked[:2]]
    outputs = saved_models.call_on_texts(prediction_models.load(found), given)
    for number, answer in enumerate(outputs["answer"]):
        start, end = int(outputs["start"][number]), int(outputs["end"][number])
        assert answer.decode() == context[start:end] != ""
        assert answer.decode() == answer.decode().strip()
    results = json.loads((folder / "results.json").read_text())
    predictions = json.loads((folder / "predictions" / "predictions.json").read_text())
    assert [predictions["0"], predictions["1"]] == [one.decode() for one in outputs["answer"]]
    assert 0 <= results["squad_f1"] <= 1
