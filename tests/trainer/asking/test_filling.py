"""The answers at masks, beside the model itself and an encoder whose answers are known."""

import json

import numpy as np
import pytest
from support import untrained_models

from beambert.cli import run
from beambert.trainer.asking import MASKED_LM_HEAD, fill, open_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory, vocabulary):
    return untrained_models.save_encoder(tmp_path_factory.mktemp("asked") / "e", vocabulary)


def test_the_bias_alone_gives_known_probabilities(folder, vocabulary):
    """Without word embeddings, the logits are the bias: ln 3 for one token, 0 for the others."""
    encoder = open_encoder(str(folder), MASKED_LM_HEAD)
    encoder.model.encoder.word_embeddings.assign(
        np.zeros_like(encoder.model.encoder.word_embeddings)
    )
    bias = np.zeros(len(vocabulary), np.float32)
    bias[vocabulary.id_of("river")] = np.log(3)
    encoder.model.masked_lm_head.output_bias_V.assign(bias)
    (filled,) = fill(encoder, ["a [MASK] b [MASK]"], 2)
    assert len(filled.answers) == 2
    for answers in filled.answers:
        (best, probability), (_, other) = answers
        assert best == "river"
        assert probability == pytest.approx(3 / (len(vocabulary) + 2), rel=1e-5)
        assert other == pytest.approx(1 / (len(vocabulary) + 2), rel=1e-5)


@pytest.mark.slow
def test_the_command(folder, tmp_path, capsys):
    text = "the [MASK] of [MASK]"
    assert run(["fill", f"--model={folder}", text, "--top=3"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == text and [line for line in out if "[MASK] " in line[:9]] == out[1:6:4]
    assert sum("%" in line for line in out) == 6
    questions = tmp_path / "questions.txt"
    questions.write_text(f"{text}\n\n[MASK] river\n")
    output = tmp_path / "answers.jsonl"
    assert run(["fill", f"--model={folder}", f"--input={questions}", f"--output={output}"]) == 0
    first, second = map(json.loads, output.read_text().splitlines())
    assert first["text"] == text and len(first["answers"]) == 2 and len(second["answers"]) == 1
    expected = fill(str(folder), [text])[0].answers[0]
    assert [(answer["token"], answer["probability"]) for answer in first["answers"][0]] == [
        (token, pytest.approx(probability, rel=1e-4)) for token, probability in expected
    ]
    assert capsys.readouterr().out == f"{output}: answers to 2 texts\n"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["no mask"], "'no mask': has no [MASK]"),
        (["[MASK]", "--input=x"], "--input: is needed without a TEXT, and only then"),
        (["[MASK] " * 20], "has 22 tokens with [CLS] and [SEP]"),
    ],
)
def test_refusals(folder, capsys, flags, told):
    assert run(["fill", f"--model={folder}", *flags]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1


def test_files_of_other_encodings(folder, tmp_path, capsys):
    questions, output = tmp_path / "questions.txt", tmp_path / "answers.jsonl"
    flags = [f"--model={folder}", f"--input={questions}", f"--output={output}"]
    questions.write_bytes("der Fluß [MASK]\n".encode("latin-1"))
    assert run(["fill", *flags]) == 2
    assert capsys.readouterr().err.endswith("; save it as UTF-8\n") and not output.exists()
    # Editors on Windows write this mark.
    questions.write_text("the [MASK]\n", encoding="utf-8-sig")
    assert run(["fill", *flags]) == 0
    assert json.loads(output.read_text())["text"] == "the [MASK]"
