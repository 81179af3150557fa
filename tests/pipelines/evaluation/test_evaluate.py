"""beambert evaluate: metrics, slices, the blessing, the report, and what is refused."""

import contextlib
import dataclasses
import hashlib
import json
import math
import pathlib
import re
import shutil
from io import StringIO

import numpy as np
import pytest
from support import small_evaluation
from support.small_evaluation import ROWS, arguments
from support.stand_in_models import LABELS, RULES

from beambert import console
from beambert.errors import InputError
from beambert.pipelines import evaluate
from beambert.pipelines.evaluation import measures as slices
from beambert.pipelines.evaluation import predictions, run
from beambert.pipelines.evaluation.measures import changes, measures_of, words_note
from beambert.pipelines.tasks import declarations, saved_models
from beambert.pipelines.tasks.choice import ChoiceExample
from beambert.pipelines.tasks.find_model import find_model
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.table_task import TextExample
from beambert.pipelines.tasks.tagging import TaggedExample
from beambert.pipelines.tasks.task import Row, words_in

model, pair_model = small_evaluation.model, small_evaluation.pair_model
data = small_evaluation.data
LABEL_INDEX = np.array([LABELS.index(label) for _, label, _ in ROWS])
PROBABILITIES = np.array(
    [next(p for keyword, p in RULES if keyword in text) for text, _, _ in ROWS]
)
PREDICTED = PROBABILITIES.argmax(axis=1)


@pytest.fixture(scope="module")
def blessed(tmp_path_factory, data, model):
    """Runs the command with the default threshold and returns (output folder, printed text).

    As a pattern the folder's name would match another.
    """
    output = tmp_path_factory.mktemp("results") / "eval[u]ation*"
    (output.parent / "evaluation").mkdir()
    (output.parent / "evaluation" / "theirs").write_text("kept")
    with (
        contextlib.redirect_stdout(StringIO()) as printed,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(console, "SECONDS_BETWEEN_LINES", 0.01)
        evaluate.main(arguments(data, model, output))
    return output, printed.getvalue()


def metrics_of(output):
    """Reads metrics.json."""
    return json.loads((output / "metrics.json").read_text())


def test_overall_metrics_equal_the_definitions(blessed):
    """TFMA's numbers against the same computed from the rule by hand."""
    overall = metrics_of(blessed[0])["overall"]
    right = PROBABILITIES[np.arange(len(ROWS)), LABEL_INDEX]
    pairs = list(zip(LABEL_INDEX, PREDICTED, strict=True))
    matrix = [[pairs.count((i, j)) for j in (0, 1)] for i in (0, 1)]
    assert matrix == [[4, 1], [2, 3]]
    assert overall["example_count"] == 10
    assert overall["accuracy"] == 0.7
    assert overall["cross_entropy"] == pytest.approx(-np.log(right).mean(), abs=1e-6)
    assert metrics_of(blessed[0])["details"]["confusion_matrix"] == matrix
    assert overall["macro_f1"] == pytest.approx((2 * 4 / 11 + 2 * 3 / 9) / 2, abs=1e-6)


def test_every_slice_is_the_metric_of_its_rows(blessed):
    """Label, prediction, length and the input column; each partitions the examples."""
    slices = metrics_of(blessed[0])["slices"]
    values = {
        "label": [label for _, label, _ in ROWS],
        "prediction": [LABELS[index] for index in PREDICTED],
        "source": [source for _, _, source in ROWS],
        "length": ["1-8" if len(text.split()) <= 8 else "9-16" for text, _, _ in ROWS],
    }
    assert set(slices) == set(values)
    correct = PREDICTED == LABEL_INDEX
    for name, of_row in values.items():
        assert sum(part["example_count"] for part in slices[name].values()) == len(ROWS)
        for value, part in slices[name].items():
            chosen = np.array(of_row) == value
            assert part["example_count"] == chosen.sum()
            assert part["accuracy"] == pytest.approx(correct[chosen].mean(), abs=1e-6)


def test_a_slice_of_one_label_has_no_metric_of_several(blessed):
    """The macro F1 of one label would look like a bad result of a good model."""
    output, _ = blessed
    for part in metrics_of(output)["slices"]["label"].values():
        assert part["macro_f1"] is part["intervals_95"]["macro_f1"] is None
    assert metrics_of(output)["slices"]["prediction"]["negative"]["macro_f1"] > 0
    assert '<td class="number">-</td>' in (output / "report.html").read_text()


def test_a_model_above_the_baseline_is_blessed(blessed):
    """The marker and the text say by what."""
    output, printed = blessed
    assert (output.parent / "evaluation" / "theirs").read_text() == "kept"
    assert (output / "BLESSED").read_text() == (
        "accuracy 0.7000 is more than 0.5000, which always answering 'negative' gives\n"
    )
    assert not (output / "NOT_BLESSED").exists()
    assert sorted(path.name for path in output.iterdir()) == [
        "BLESSED",
        "_SUCCESS",
        "metrics.json",
        "mistakes.jsonl",
        "predictions",
        "report.html",
        "tfma",
    ]
    constant = metrics_of(output)["constant_answers"]["accuracy"]
    assert constant == {"answer": "negative", "score": 0.5}
    assert "BLESSED: accuracy 0.7000 is more than 0.5000" in printed
    assert "accuracy 0.7000, 95 % interval 0." in printed
    assert "accuracy 0.5000 by always answering 'negative'\n" in printed


def test_a_model_that_words_reach_is_not_blessed_in_silence(blessed, data, model, tmp_path):
    """Words that were learned from the same rows answer all of them."""
    assert metrics_of(blessed[0])["words"] is None  # there is no train file
    shutil.copy(data / "dev.tsv", tmp_path)
    header, *rows = (data / "dev.tsv").read_text().splitlines()
    (tmp_path / "train.tsv").write_text("\n".join([header, *rows, *rows, ""]))
    job, _ = evaluate.parse(arguments(tmp_path, model, tmp_path / "output"))
    examples = run.read_labelled(job, LABELS, job.data_dir)
    found = run.by_words(job, examples, LABELS)
    scored = measures_of(job.task, LABELS)
    old = scored.scores(found)["accuracy"]
    assert old >= 0.9
    outcomes = job.task.outcomes(examples, LABELS, {"probabilities": PROBABILITIES})
    words = {"model": "TF-IDF", **changes(found, scored, outcomes, scored)}
    assert words["changes"]["accuracy"] == pytest.approx(0.7 - old)
    assert f"{old:.4f}" in words_note({"words": words, "metrics": scored.names})
    better = {"model": "TF-IDF", **changes(outcomes, scored, found, scored)}
    assert words_note({"words": better, "metrics": scored.names}) == ""
    assert run.by_words(dataclasses.replace(job, split="train"), examples, LABELS) is None


def test_predictions_are_kept_in_the_file_of_their_row(blessed):
    """Any TFRecord reader can look at them."""
    import tensorflow as tf

    files = [str(path) for path in (blessed[0] / "predictions").iterdir()]
    found = {}
    for record in tf.data.TFRecordDataset(files).as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        row = feature["row"].int64_list.value[0]
        found[row] = feature["probabilities"].float_list.value
        assert feature["slice label"].bytes_list.value == [ROWS[row][1].encode()]
    for row, probabilities in enumerate(PROBABILITIES):
        np.testing.assert_allclose(found[row], probabilities, rtol=1e-6)


def test_report_is_self_contained_and_escapes_text(blessed):
    """Nothing is fetched, and the surest mistake is shown as text."""
    page = (blessed[0] / "report.html").read_text()
    assert not re.findall(r'(?:src|href)="(?!#)', page)
    assert "<script" not in page and "@import" not in page
    assert "good &lt;b&gt;only&lt;/b&gt; in parts" in page
    assert "Confusion matrix" in page


def test_no_evaluation_takes_the_place_of_another(blessed, data, model, capfd):
    with pytest.raises(InputError, match="thresholds there .*accuracy=None.*, here .*=0.7"):
        evaluate.main(arguments(data, model, blessed[0], "--threshold=0.7"))
    evaluate.main(arguments(data, model, blessed[0]))
    assert "already finished by the same command" in capfd.readouterr().out


@pytest.mark.slow
def test_slices_are_chosen_and_a_refusal_has_a_status(data, model, tmp_path, capfd):
    """For a step of a build; a blessed model ends with 0. Of two thresholds one is missed."""
    output = tmp_path / "output"
    missed = ["--metric=accuracy", "--threshold=0.7", "--metric=cross_entropy", "--threshold=0.1"]
    chosen = ["--slices=source,label", "--exit_status"]
    with pytest.raises(SystemExit) as ended:
        evaluate.main(arguments(data, model, output, *missed, *chosen))
    assert ended.value.code == 3
    metrics = metrics_of(output)
    assert [verdict["passed"] for verdict in metrics["thresholds"]] == [True, False]
    assert metrics["blessed"] is False and not (output / "BLESSED").exists()
    refused = (output / "NOT_BLESSED").read_text()
    assert "cross entropy 0.6" in refused and "is not at most 0.1000" in refused
    assert not list(output.glob("_tmp-*"))
    assert "NOT_BLESSED: cross entropy" in capfd.readouterr().out
    assert list(metrics["slices"]) == ["label", "source"]
    quick = ["--threshold=0.5", "--slices=none", "--exit_status"]
    evaluate.main(arguments(data, model, tmp_path / "quick", *quick))
    assert (tmp_path / "quick" / "BLESSED").exists()
    with pytest.raises(InputError) as refused:
        evaluate.main(arguments(data, model, tmp_path / "none", "--slices=label,colour"))
    assert "--slices=label,colour: 'colour' is none of the slices" in str(refused.value)
    assert "which are length, label, source, prediction;" in str(refused.value)
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_a_baseline_must_be_reached(blessed, data, model, tmp_path):
    """The model beside itself: at least as good, but not better by 0.05.

    All figures are the same, intervals too, though they are from random draws.
    """
    output = tmp_path / "output"
    evaluate.main(arguments(data, model, output, f"--baseline={blessed[0]}"))
    metrics = metrics_of(output)
    assert (output / "BLESSED").read_text().splitlines()[1] == (
        "accuracy 0.7000 is at least 0.7000, the baseline's 0.7000"
    )
    for part in ("overall", "slices", "details"):
        assert metrics[part] == metrics_of(blessed[0])[part]
    assert metrics["baseline"]["weights_sha256"] == metrics["weights_sha256"]
    assert metrics["baseline"]["changes"]["accuracy"] == 0
    assert metrics["baseline"]["change_interval_95"] == [0, 0]
    assert "Comparison with the baseline" in (output / "report.html").read_text()
    output = tmp_path / "better"
    evaluate.main(arguments(data, model, output, f"--baseline={blessed[0]}", "--min_change=0.05"))
    assert (output / "NOT_BLESSED").read_text() == (  # without the threshold that it has reached
        "accuracy 0.7000 is not at least 0.7500, the baseline's 0.7000 plus 0.05\n"
    )


def test_a_baseline_on_other_examples_is_refused(blessed, data, model, tmp_path):
    """Its score would say nothing of these."""
    other = tmp_path / "data"
    other.mkdir()
    (other / "dev.tsv").write_text("text\tlabel\ngood\tpositive\nbad\tnegative\n")
    with pytest.raises(InputError, match="evaluated other examples than these; evaluate that"):
        evaluate.main(arguments(other, model, tmp_path / "output", f"--baseline={blessed[0]}"))
    assert not (tmp_path / "output").exists()


def test_metrics_say_which_weights_were_evaluated(blessed, model):
    """By an absolute path and a hash, so that a blessing of earlier weights is known."""
    (variables,) = (model / "saved_model" / "variables").glob("*.data-*")
    metrics = metrics_of(blessed[0])
    assert metrics["model"] == str(model)
    assert metrics["weights_sha256"] == hashlib.sha256(variables.read_bytes()).hexdigest()


def test_both_texts_of_a_pair_reach_the_model(pair_model):
    """The stand-in finds its keyword in the second text."""
    import tensorflow as tf

    model = find_model(str(pair_model), "classification")
    batch = predictions.PredictBatch(declarations.find_task("sst-2"), model, None)
    batch.setup()
    rows = [
        Row(TextExample("so", "good", None, {}), {"row": [4]}),
        Row(TextExample("so", "bad", None, {}), {"row": [7]}),
    ]
    features = [
        tf.train.Example.FromString(record).features.feature for record in batch.process(rows)
    ]
    assert [list(f["prediction"].bytes_list.value) for f in features] == [
        [b"positive"],
        [b"negative"],
    ]
    assert [f["row"].int64_list.value[0] for f in features] == [4, 7]


@pytest.mark.parametrize(
    ("index", "probabilities", "message"),
    [
        (1, (0.8, 0.2), "answers 'positive', which is not the likeliest line of labels"),
        (-1, (0.8, 0.2), "answers 'neutral', which is not the likeliest line of labels"),
        (0, (math.nan, 0.2), "gives probabilities that are not numbers"),
    ],
)
def test_answers_that_contradict_the_labels_are_found(index, probabilities, message):
    """A labels.txt in another order than the model's would swap every metric unseen."""
    name = {0: b"negative", 1: b"positive", -1: b"neutral"}[index]
    record = {
        "row": [0],
        "prediction": [name],
        "prediction_index": [index],
        "probabilities": probabilities,
    }
    model = saved_models.Model(pathlib.Path("model"), LABELS)
    with pytest.raises(InputError, match=message):
        predictions.check_records("classification", [record], 1, model)


def test_a_baseline_without_its_predictions_is_refused(blessed, data, model, tmp_path):
    """Deleted, cut off, or some of them."""
    baseline = shutil.copytree(blessed[0], tmp_path / "baseline")
    (file,) = (baseline / "predictions").iterdir()
    records = file.read_bytes()
    refused = "its predictions cannot be read; evaluate that model \\(.*\\) again"
    for content, message in (
        (records[:-7], refused),
        (b"", "has 0 predictions for 10 examples; evaluate"),
        (None, refused),
    ):
        file.write_bytes(content) if content is not None else shutil.rmtree(file.parent)
        with pytest.raises(InputError, match=message):
            evaluate.main(arguments(data, model, tmp_path / "output", f"--baseline={baseline}"))
    assert not (tmp_path / "output").exists()


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


@pytest.mark.parametrize(
    ("words", "bucket"),
    [(1, "1-8"), (8, "1-8"), (9, "9-16"), (32, "17-32"), (256, "129-256"), (257, "257+")],
)
def test_length_buckets(words, bucket):
    """Bounds are inclusive; a pair counts both texts, a choice its longest ending."""
    assert slices.length_bucket(words_in(TextExample("w " * words, None, None, {}))) == bucket
    pair = TextExample("w", "w " * (words - 1), None, {})
    assert slices.length_bucket(words_in(pair)) == bucket
    assert slices.length_bucket(words_in(TaggedExample(("w",) * words, None))) == bucket
    choice = ChoiceExample("", None, None, {}, ("w", "w " * words))
    assert slices.length_bucket(words_in(choice)) == bucket
    question = Question("id", "w", "w " * (words - 1), (), True)
    assert slices.length_bucket(words_in(question)) == bucket


def numbered(labels, columns=({},)):
    """Returns examples of these labels."""
    return [
        TextExample("w", None, str(label), columns[i % len(columns)])
        for i, label in enumerate(labels)
    ]


def test_numbers_are_parted_into_quarters():
    """Of as many examples where they differ; equal ones stay together."""
    values, order = slices.slicings("regression", numbered([5, 1, 2, 3, 4, 6, 8, 7]), ())["label"]
    assert order == ("1 to 2", "3 to 4", "5 to 6", "7 to 8")
    assert values[:2] == ("5 to 6", "1 to 2")
    _, order = slices.slicings("regression", numbered([1, 1, 1, 1, 1, 1, 2, 9]), ())["label"]
    assert order == ("1 to 1", "2 to 9")


def test_columns_with_few_values_part():
    """Not one with a single value, nor one with more than 20."""
    columns = [
        {"source": "ab"[i % 2], "one": "x", "id": str(i), "length": "yn"[i % 2], "row": "yn"[i % 2]}
        for i in range(21)
    ]
    ways = slices.slicings("classification", numbered("10" * 10 + "1", columns), ["1", "0"])
    assert set(ways) == {"length", "label", "source", "column length", "row"}
    assert ways["source"][1] == ("a", "b")
    assert ways["label"][1] == ("1", "0")
    assert set(ways["length"][0]) == {"1-8"}


def test_a_named_column_may_have_more_values():
    """By itself a column with many values makes no slices, as each has its own bootstrap."""
    examples = [TextExample("w", None, "x", {"country": str(i % 21)}) for i in range(60)]
    by_itself, named = (
        slices.slicings("classification", examples, ["x", "y"], names)
        for names in (None, ["country"])
    )
    assert "country" not in by_itself
    assert "country" in named


def test_slices_have_all_candidates_of_a_query():
    """By the length of the query, and by columns that say something about it alone."""
    examples = [
        TextExample(
            "w " * words,
            "w " * (7 * number),
            str(number % 2),
            {"language": "ab"[words % 2], "place": str(number)},
        )
        for words in (1, 8, 9, 40)
        for number in range(1, 5)
    ]
    ways = slices.slicings("rerank", examples, ())
    assert set(ways) == {"length", "language"}
    assert ways["length"][0] == ("1-8",) * 8 + ("9-16",) * 4 + ("33-64",) * 4
    assert ways["language"][0] == ("b",) * 4 + ("a",) * 4 + ("b",) * 4 + ("a",) * 4
