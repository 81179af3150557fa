"""Answers of a served SQuAD model to texts, next to those of the arrays that training makes."""

import json

import numpy as np
import pytest

from beambert.model.config import BertConfig
from beambert.pipelines.tasks import saved_models as task_models
from beambert.pipelines.tasks.find_model import find_model
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.task import SPAN
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tasks.windows import (
    CERTAIN,
    decode,
    make_windows,
    span_features,
)
from beambert.pipelines.tokenizers.word_pieces import OffsetTokenizer
from beambert.saved_models import call_on_texts
from beambert.trainer.finetuning.batches import PaddedBatches
from beambert.trainer.models import build_model
from beambert.trainer.serving.saved_model import save_task_model

# Windows of 24 tokens: of a question up to 8 pieces, of a context 13 to 20, 8 pieces apart.
LENGTH = 24
WORDS = ("river", "CITY", "zoo", "qx", "the", "Café", "e\u0301t", "☃", "\u200bwar", "中文", "end.")


@pytest.fixture(scope="module")
def model(vocabulary):
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        initializer_range=1.0,
    )
    return build_model(SPAN, config, 0, seed=5)


@pytest.fixture(scope="module")
def folder(model, vocabulary, tmp_path_factory):
    """The model as `beambert finetune` leaves it."""
    folder = tmp_path_factory.mktemp("reader")
    training = {"kind": SPAN, "task": "squad2.0", "labels": [], "is_pair": True}
    training |= {"max_seq_length": LENGTH, "do_lower_case": True}
    text_features = TextFeatures(vocabulary, True, LENGTH)
    save_task_model(model, text_features, training, f"{folder}/saved_model")
    (folder / "training.json").write_text(json.dumps(training))
    (folder / "vocab.txt").write_bytes(vocabulary.serialize())
    (folder / "_SUCCESS").write_text("")
    return folder


@pytest.mark.slow
def test_answers_equal_those_of_the_trained_path(model, folder, vocabulary):
    """Contexts of no piece up to 9 windows, with what the tokenizer changes or drops."""
    random, questions = np.random.default_rng(7), []
    for number in range(60):
        question = " ".join(random.choice(WORDS, random.integers(0, 8)))
        context = random.choice([" ", "\n", "  "]).join(random.choice(WORDS, number % 23))
        questions.append(Question(str(number), question, context, (), True))
    questions.append(Question("60", "zoo", " \u200b\n", (), True))
    loaded = task_models.load(find_model(str(folder)))
    found = call_on_texts(loaded, [question.texts() for question in questions])
    tokenizer = OffsetTokenizer(vocabulary, True)
    windows = make_windows(questions, tokenizer, LENGTH)
    assert np.bincount(windows.question_index).max() > 3
    features = span_features(windows)
    logits = model(PaddedBatches(features)(np.arange(len(features)), LENGTH)).numpy()
    expected = decode(questions, windows, *np.moveaxis(logits, -1, 0), True)
    answers = [answer.decode() for answer in found["answer"]]
    assert answers == list(expected.answers.values())
    spans = zip(questions, found["start"], found["end"], strict=True)
    assert answers == [each.context[start:end] for each, start, end in spans]
    np.testing.assert_allclose(found["score"], list(expected.scores.values()), rtol=1e-5, atol=1e-5)
    odds = list(expected.null_odds.values())
    np.testing.assert_allclose(found["null_odds"], odds, rtol=1e-5, atol=1e-5)
    assert 5 < answers.count("") < 55 and CERTAIN in odds
