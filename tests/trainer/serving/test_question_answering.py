"""Answers of the exported graph, beside those of the arrays that training and evaluation make."""

import json

import numpy as np
import pytest
import tensorflow as tf

from beambert.model.config import BertConfig
from beambert.pipelines import predict
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.task import SPAN
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tasks.windows import (
    CERTAIN,
    DecodingParameters,
    WindowParameters,
    decode,
    make_windows,
    span_features,
)
from beambert.pipelines.tokenizers.wordpiece import OffsetTokenizer
from beambert.trainer.finetuning.batches import PaddedBatches
from beambert.trainer.models import build_model
from beambert.trainer.serving.saved_model import save_task_model
from beambert.trainer.tasks import span
from beambert.trainer.tasks.span import AnswerModule

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
def text_features(vocabulary):
    return TextFeatures(vocabulary, True, LENGTH)


@pytest.fixture(scope="module")
def questions():
    """Contexts of no piece up to 9 windows, with what the tokenizer changes or drops."""
    random, made = np.random.default_rng(7), []
    for number in range(60):
        question = " ".join(random.choice(WORDS, random.integers(0, 8)))
        separator = random.choice([" ", "\n", "  "])
        context = separator.join(random.choice(WORDS, number % 23))
        made.append(Question(str(number), question, context, (), True, ""))
    made.append(Question("60", "zoo", " \u200b\n", (), True, ""))
    return [*made, made[22]]


def trained_path(model, text_features, questions, allows_no_answer):
    tokenizer = OffsetTokenizer(text_features.vocabulary, True)
    windows = make_windows(questions, tokenizer, WindowParameters.of_length(LENGTH))
    features = span_features(windows)
    logits = model(PaddedBatches(features)(tf.range(len(features)), LENGTH))
    # As one asked twice has one id, each is asked by its place.
    numbered = [
        Question(str(number), question.question, question.context, (), True, "")
        for number, question in enumerate(questions)
    ]
    logits = np.moveaxis(logits.numpy(), -1, 0)
    return decode(numbered, windows, *logits, allows_no_answer, DecodingParameters()), windows


@pytest.mark.slow
@pytest.mark.parametrize("allows_no_answer", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_answers_equal_those_of_the_trained_path(
    model, text_features, questions, allows_no_answer, monkeypatch, tmp_path
):
    monkeypatch.setattr(span, "_WINDOWS_AT_A_TIME", 7)
    module = AnswerModule(model, text_features, allows_no_answer)
    tf.saved_model.save(module, tmp_path, signatures=module.functions)
    serve = tf.saved_model.load(tmp_path).signatures["serving_default"]
    found = serve(
        question=tf.constant([question.question for question in questions]),
        context=tf.constant([question.context for question in questions]),
    )
    found = {name: value.numpy() for name, value in found.items()}
    expected, windows = trained_path(model, text_features, questions, allows_no_answer)
    assert np.bincount(windows.question_index).max() > 3
    answers = [answer.decode() for answer in found["answer"]]
    assert answers == list(expected.answers.values())
    spans = zip(questions, found["start"], found["end"], strict=True)
    assert answers == [each.context[start:end] for each, start, end in spans]
    best = [next((e for e in entries if e["text"]), None) for entries in expected.n_best.values()]
    scores = [e["start_logit"] + e["end_logit"] if e else -np.inf for e in best]
    np.testing.assert_allclose(found["score"], scores, rtol=1e-5, atol=1e-5)
    assert np.isneginf(found["score"]).sum() == sum(
        not question.context.strip("\u200b\n ") for question in questions
    )
    if allows_no_answer:
        odds = list(expected.null_odds.values())
        np.testing.assert_allclose(found["null_odds"], odds, rtol=1e-5, atol=1e-5)
        assert 5 < answers.count("") < 55 and CERTAIN in odds
    else:
        assert "null_odds" not in found


@pytest.mark.slow
def test_bytes_that_are_no_text_and_nothing_to_answer(model, text_features):
    module = AnswerModule(model, text_features, allows_no_answer=False)
    serve = module.functions["serving_default"]
    context = tf.constant([b"river \xff city"])
    found = serve(question=tf.constant(["zoo"]), context=context)
    answer, start, end = (found[name].numpy()[0] for name in ("answer", "start", "end"))
    assert answer.decode() == "river \ufffd city"[start:end] != ""
    assert serve(question=tf.constant([], tf.string), context=tf.constant([], tf.string))[
        "answer"
    ].shape == (0,)


@pytest.mark.slow
def test_predict_answers_questions(model, text_features, tmp_path):
    """The batch pipeline over tables, with the columns of SQuAD or others."""
    folder = tmp_path / "reader"
    columns = {"text_columns": ["question", "context"], "choice_columns": []}
    training = {"kind": SPAN, "task": "squad2.0", "labels": [], "is_pair": True, "columns": columns}
    save_task_model(model, text_features, training, f"{folder}/saved_model")
    (folder / "training.json").write_text(json.dumps(training))
    (folder / "_SUCCESS").write_text("")
    contexts = ["river city zoo the war " * 9, "the river"]
    rows = "".join(f"zoo\t{context}\n" for context in contexts)
    (tmp_path / "a.tsv").write_text(f"question\tcontext\n{rows}the\t\n")
    predict.main([f"--model={folder}", f"--input={tmp_path}/a.tsv", f"--output={tmp_path}/out"])
    (part,) = (tmp_path / "out").glob("part-*")
    answers = sorted(map(json.loads, part.open()), key=lambda answer: answer["line"])
    assert [answer["line"] for answer in answers] == [2, 3]
    for answer, context in zip(answers, contexts, strict=True):
        assert answer["answer"] == context[answer["start"] : answer["end"]]
        assert bool(answer["answer"]) == (answer["null_odds"] <= 0)
    (rejects,) = (tmp_path / "out").glob("rejects-*")
    assert "line 4: has an empty 'context'" in rejects.read_text()


@pytest.mark.slow
def test_starts_that_go_with_no_end(text_features, monkeypatch):
    """As in decoding: the best of all spans where those of the best starts and ends are none."""

    class Fixed(tf.Module):
        def __call__(self, features):
            logits = np.zeros((1, LENGTH, 2), np.float32)
            # [CLS] the [SEP] river city war [SEP]
            logits[0, 5, 0], logits[0, 3, 1] = 5, 6
            return tf.constant(logits)

    monkeypatch.setattr(span, "_DECODING", DecodingParameters(n_best_size=1))
    module = AnswerModule(Fixed(), text_features, allows_no_answer=False)
    serve = module.functions["serving_default"]
    found = serve(question=tf.constant(["the"]), context=tf.constant(["river city war"]))
    assert found["answer"].numpy() == [b"river"] and found["score"].numpy() == [6]
