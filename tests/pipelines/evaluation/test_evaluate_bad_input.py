"""What `evaluate` refuses, each with one sentence."""

import re
import shutil

import pytest
from support import small_evaluation
from support.small_evaluation import arguments
from support.stand_in_models import LABELS

from beambert.errors import InputError
from beambert.pipelines import evaluate
from beambert.pipelines.tasks.find_model import find_model

model, pair_model = small_evaluation.model, small_evaluation.pair_model
data = small_evaluation.data


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--model=/no/such"], "--model=/no/such: no such folder"),
        (["--split=test"], "test.tsv: has no labels to compare with"),
        (["--task=sst-2"], "has the labels negative, positive but task sst-2 has 0, 1"),
        (["--min_change=0.1"], "--min_change=0.1: needs --baseline; leave it out"),
        (["--baseline=/no/such", "--min_change=nan"], "--min_change=nan: must be a number"),
        (["--baseline=/no/such"], "--baseline=/no/such: holds no finished evaluation"),
        (["--threshold=80"], "--threshold=80: cannot be reached by accuracy; give a number from 0"),
        (["--threshold=0.8", "--threshold=0.9"], "--metric: is given 1 times but --threshold 2"),
    ],
)
def test_bad_input_is_one_sentence_and_makes_nothing(data, model, tmp_path, more, message):
    """The flag is named, and no output folder appears."""
    output = tmp_path / "output"
    with pytest.raises(InputError, match=re.escape(message)):
        evaluate.main(arguments(data, model, output, *more))
    assert not output.exists()


def test_a_model_of_another_shape_is_refused(data, model, pair_model, tmp_path):
    """Inputs, number of labels, and the label file."""

    def broken(name, labels):
        folder = tmp_path / name
        shutil.copytree(model, folder)
        (folder / "labels.txt").write_text(labels)
        return folder

    damaged = broken("damaged", "negative\npositive\n")
    (damaged / "saved_model" / "saved_model.pb").write_bytes(b"damaged")
    empty = broken("empty", "negative\npositive\n")
    (empty / "saved_model" / "saved_model.pb").write_bytes(b"")
    missing = broken("missing", "")
    (missing / "labels.txt").unlink()
    cases = [
        (pair_model, "takes text, text_b but the task gives text"),
        (broken("three", "negative\npositive\nneutral\n"), "of shape [-1, 2] but labels.txt has 3"),
        (broken("one", "negative\n"), "does not list two or more different labels"),
        (broken("other", "bad\ngood\n"), "has the label 'positive', which is not one of bad, good"),
        (missing, "has no labels.txt"),
        (damaged, "saved_model.pb: is damaged; export the model again"),
        (empty, "saved_model.pb: is damaged; export the model again"),
    ]
    for folder, message in cases:
        with pytest.raises(InputError, match=re.escape(message)):
            evaluate.main(arguments(data, folder, tmp_path / "output"))
    assert not (tmp_path / "output").exists()


def test_weights_that_are_cut_off_are_one_sentence(data, model, tmp_path, capfd):
    """They are found before the job begins."""
    cut = shutil.copytree(model, tmp_path / "cut")
    for path in (cut / "saved_model" / "variables").iterdir():
        path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(InputError) as caught:
        evaluate.main(arguments(data, cut, tmp_path / "output"))
    assert re.fullmatch(
        r"--model=.*cut: cannot be loaded \(.*\); copy it again, or export it again",
        str(caught.value),
    )
    assert "Traceback" not in capfd.readouterr().err


def test_a_model_that_is_still_trained_is_refused(data, model, tmp_path):
    """It has training.json from the start and _SUCCESS from the end."""
    unfinished = shutil.copytree(model, tmp_path / "model")
    (unfinished / "training.json").write_text('{"kind": "classification"}')
    with pytest.raises(InputError, match="is not finished \\(no _SUCCESS\\)"):
        evaluate.main(arguments(data, unfinished, tmp_path / "output"))
    (unfinished / "_SUCCESS").write_text("{}")
    assert find_model(str(unfinished), "classification").labels == LABELS
    with pytest.raises(InputError, match="was trained for classification but the task asks for"):
        find_model(str(unfinished), "tagging")
