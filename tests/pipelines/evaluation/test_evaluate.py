"""Evaluation of a stand-in model whose answers are known, so that every metric is too."""

import contextlib
import hashlib
import io
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from support.stand_in_models import LABELS, RULES, save

from beambert.pipelines import evaluate
from beambert.pipelines.evaluation import predictions
from beambert.pipelines.prediction import saved_models
from beambert.pipelines.shared import progress
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.tasks import declarations
from beambert.pipelines.tasks.examples import TextExample

# text, label, source
ROWS = [
    ("a good film", "positive", "web"),
    ("good <b>only</b> in parts", "negative", "web"),
    ("a bad film with a cast of people who deserve much better than this", "negative", "print"),
    ("bad", "negative", "print"),
    ("bad in a way that I like a lot, which I had not expected at all", "positive", "print"),
    ("no opinion", "negative", "web"),
    ("nothing to say", "positive", "web"),
    ("good good good", "positive", "print"),
    ("so good", "positive", "web"),
    ("bad bad bad", "negative", "web"),
]
LABEL_INDEX = np.array([LABELS.index(label) for _, label, _ in ROWS])
PROBABILITIES = np.array(
    [next(p for keyword, p in RULES if keyword in text) for text, _, _ in ROWS]
)
PREDICTED = PROBABILITIES.argmax(axis=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model folder."""
    return save(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def pair_model(tmp_path_factory):
    """A model folder whose model takes two texts."""
    return save(tmp_path_factory.mktemp("pair_model"), pairs=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder."""
    folder = tmp_path_factory.mktemp("data")
    lines = ["text\tlabel\tsource", *("\t".join(row) for row in ROWS)]
    (folder / "dev.tsv").write_text("\n".join(lines) + "\n")
    (folder / "test.tsv").write_text("text\nx\n")
    return folder


def arguments(data, model, output, *more):
    """Returns a command line."""
    return [
        "--task=classification",
        f"--data_dir={data}",
        f"--model={model}",
        f"--output={output}",
        *more,
    ]


@pytest.fixture(scope="module")
def blessed(tmp_path_factory, data, model):
    """Runs the command with the default threshold and returns (output folder, printed text)."""
    output = tmp_path_factory.mktemp("results") / "evaluation"
    with (
        contextlib.redirect_stdout(io.StringIO()) as printed,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.01)
        evaluate.main(arguments(data, model, output))
    return output, printed.getvalue()


def metrics_of(output):
    """Reads metrics.json."""
    return json.loads((output / "metrics.json").read_text())


def test_progress_of_both_pipelines(blessed):
    printed = blessed[1]
    assert re.search(r"^10 of 10 examples", printed, re.MULTILINE)
    assert re.search(r"^computing the metrics of 10 examples, \d+ s so far$", printed, re.MULTILINE)
    assert re.findall(r"^(\w+) in .+ s, [\d.]+ examples/s$", printed, re.MULTILINE) == [
        "predicted",
        "scored",
    ]


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
    output, printed = blessed
    for part in metrics_of(output)["slices"]["label"].values():
        assert part["macro_f1"] is part["intervals_95"]["macro_f1"] is None
    assert metrics_of(output)["slices"]["prediction"]["negative"]["macro_f1"] > 0
    assert re.search(r"^label = negative .* 0\.8000 .* - +[\d.]+$", printed, re.MULTILINE)
    assert "<td class=\"number\">-</td>" in (output / "report.html").read_text()


def test_a_model_above_the_baseline_is_blessed(blessed):
    """The marker and the text say by what."""
    output, printed = blessed
    assert (output / "BLESSED").read_text() == (
        "accuracy 0.7000 is more than 0.5000, which always answering 'negative' gives\n"
    )
    assert not (output / "NOT_BLESSED").exists()
    assert sorted(path.name for path in output.iterdir()) == [
        "BLESSED",
        "metrics.json",
        "predictions",
        "report.html",
        "tfma",
    ]
    constant = metrics_of(output)["constant_answers"]["accuracy"]
    assert constant == {"answer": "negative", "score": 0.5}
    assert "BLESSED: accuracy 0.7000 is more than 0.5000" in printed
    assert "overall" in printed and "source = web" in printed


def test_predictions_are_kept_in_the_file_of_their_row(blessed):
    """Any TFRecord reader can look at them."""
    import tensorflow as tf

    files = [str(path) for path in (blessed[0] / "predictions").iterdir()]
    found = {}
    for record in tf.data.TFRecordDataset(files).as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        row = feature["row"].int64_list.value[0]
        found[row] = feature["probabilities"].float_list.value
        assert feature["label"].bytes_list.value == [ROWS[row][1].encode()]
    for row, probabilities in enumerate(PROBABILITIES):
        np.testing.assert_allclose(found[row], probabilities, rtol=1e-6)


def test_report_is_self_contained_and_escapes_text(blessed):
    """Nothing is fetched, and the surest mistake is shown as text."""
    page = (blessed[0] / "report.html").read_text()
    assert not re.findall(r'(?:src|href)="(?!#)', page.replace("xmlns:xlink", ""))
    assert "<script" not in page and "@import" not in page
    assert "good &lt;b&gt;only&lt;/b&gt; in parts" in page
    assert page.count("<svg") == 4


def test_a_missed_threshold_refuses_and_replaces_the_earlier_evaluation(
    blessed, data, model, tmp_path, capfd
):
    """A copy of a blessed folder is evaluated again with thresholds of which one is missed."""
    output = tmp_path / "again"
    shutil.copytree(blessed[0], output)
    evaluate.main(
        arguments(
            data,
            model,
            output,
            "--metric=accuracy",
            "--threshold=0.7",
            "--metric=cross_entropy",
            "--threshold=0.1",
        )
    )
    metrics = metrics_of(output)
    assert [verdict["passed"] for verdict in metrics["thresholds"]] == [True, False]
    assert metrics["blessed"] is False
    assert not (output / "BLESSED").exists()
    assert "cross entropy 0.6" in (output / "NOT_BLESSED").read_text()
    assert "is not at most 0.1000" in (output / "NOT_BLESSED").read_text()
    assert not list(output.glob("_tmp-*"))
    printed = capfd.readouterr()
    assert "NOT_BLESSED: cross entropy" in printed.out
    assert printed.err == ""


@pytest.mark.slow
def test_slices_are_chosen_and_a_refusal_has_a_status(data, model, tmp_path, capsys):
    """For a step of a build; a blessed model ends with 0."""
    output = tmp_path / "output"
    chosen = ["--slices=source,label", "--exit_status"]
    with pytest.raises(SystemExit) as ended:
        evaluate.main(arguments(data, model, output, "--threshold=0.9", *chosen))
    assert ended.value.code == 3
    assert (output / "NOT_BLESSED").exists()
    assert list(metrics_of(output)["slices"]) == ["label", "source"]
    assert "length =" not in capsys.readouterr().out
    quick = ["--threshold=0.5", "--slices=none", "--exit_status"]
    evaluate.main(arguments(data, model, output, *quick))
    with pytest.raises(InputError) as refused:
        evaluate.main(arguments(data, model, output, "--slices=label,colour"))
    assert "--slices=label,colour: 'colour' is none of the slices" in str(refused.value)
    assert "which are length, label, source, prediction;" in str(refused.value)
    assert (output / "BLESSED").exists()


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
    # The baseline is the output itself, which this replaces.
    evaluate.main(arguments(data, model, output, f"--baseline={output}", "--min_change=0.05"))
    assert (output / "NOT_BLESSED").read_text().splitlines()[1] == (
        "accuracy 0.7000 is not at least 0.7500, the baseline's 0.7000 plus 0.05"
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

    model = saved_models.find_model(str(pair_model), declarations.CLASSIFICATION)
    predict = predictions.Predictor(declarations.CLASSIFICATION, model)
    rows = [
        predictions.Row(TextExample("so", "good", None, {}), {"row": [4]}),
        predictions.Row(TextExample("so", "bad", None, {}), {"row": [7]}),
    ]
    features = [tf.train.Example.FromString(record).features.feature for record in predict(rows)]
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
        predictions.check_records(declarations.CLASSIFICATION, [record], 1, model)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--task=nonsense"], "--task=nonsense: not a task"),
        (["--data_dir=/no/such"], "--data_dir=/no/such: not a local folder"),
        (["--model=/no/such"], "--model=/no/such: has no saved_model/saved_model.pb"),
        (["--split=test"], "test.tsv: has no labels to compare with"),
        (["--task=sst-2"], "has the labels negative, positive but task sst-2 has 0, 1"),
        (["--metric=f1"], "--metric=f1: not a metric of this task"),
        (["--min_change=0.1"], "--min_change: compares with a baseline; add --baseline="),
        (["--baseline=/no/such", "--min_change=nan"], "--min_change=nan: must be a number"),
        (["--threshold=nan"], "--threshold=nan: cannot be reached by accuracy"),
        (["--baseline=/no/such"], "--baseline=/no/such: holds no finished evaluation"),
        (["--threshold=80"], "--threshold=80: cannot be reached by accuracy; give a number from 0"),
        (["--threshold=0.8", "--threshold=0.9"], "--metric: is given 1 times but --threshold 2"),
        (["--treshold=0.8"], "--treshold=0.8: no such flag"),
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
    """They are loaded by a worker only; the earlier evaluation stays."""
    cut = shutil.copytree(model, tmp_path / "cut")
    for path in (cut / "saved_model" / "variables").iterdir():
        path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(InputError) as caught:
        evaluate.main(arguments(data, cut, tmp_path / "output"))
    assert re.fullmatch(
        r"--model=.*cut/saved_model: cannot be loaded \(.*\); copy it again, or export it again",
        str(caught.value),
    )
    assert "Traceback" not in capfd.readouterr().err


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


def test_a_disk_that_is_full_is_one_sentence(data, model, tmp_path, monkeypatch, capfd):
    """And the earlier evaluation stays."""

    def full(*_):
        raise OSError(28, "No space left on device")

    output = tmp_path / "output"
    evaluate.main(arguments(data, model, output))
    before = (output / "metrics.json").read_text()
    monkeypatch.setattr(predictions.Predictor, "__call__", full)
    with pytest.raises(InputError, match="--output: cannot be written .No space left on device"):
        evaluate.main(arguments(data, model, output, "--threshold=0.9"))
    assert (output / "BLESSED").exists() and (output / "metrics.json").read_text() == before
    assert "Traceback" not in capfd.readouterr().err


def test_a_model_that_is_still_trained_is_refused(data, model, tmp_path):
    """It has training.json from the start and _SUCCESS from the end."""
    unfinished = shutil.copytree(model, tmp_path / "model")
    (unfinished / "training.json").write_text('{"kind": "classification"}')
    with pytest.raises(InputError, match="is not finished \\(no _SUCCESS\\)"):
        evaluate.main(arguments(data, unfinished, tmp_path / "output"))
    (unfinished / "_SUCCESS").write_text("{}")
    assert saved_models.find_model(str(unfinished), declarations.CLASSIFICATION).labels == LABELS
    with pytest.raises(InputError, match="was trained for classification but the task asks for"):
        saved_models.find_model(str(unfinished), declarations.TAGGING)


def test_a_folder_that_another_command_fills_is_left_alone(data, model, tmp_path):
    """Its _UNFINISHED is a file."""
    (tmp_path / "_UNFINISHED").write_text("{}")
    with pytest.raises(InputError, match="already holds something else \\(_UNFINISHED\\)"):
        evaluate.main(arguments(data, model, tmp_path))
    assert (tmp_path / "_UNFINISHED").read_text() == "{}"


def test_an_output_that_cannot_be_made_is_one_sentence(data, model, tmp_path):
    """Here below a file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--output=.* cannot be made"):
        evaluate.main(arguments(data, model, tmp_path / "file" / "output"))


def test_a_wrong_flag_is_one_sentence(data, model, tmp_path):
    """Not argparse's usage."""
    with pytest.raises(InputError, match="--threshold=x: must be a number"):
        evaluate.main(arguments(data, model, tmp_path / "output", "--threshold=x"))


def test_a_folder_with_something_else_is_left_alone(data, model, tmp_path):
    """Also one whose metrics.json is not an evaluation's."""
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "metrics.json").write_text('{"loss": 1}')
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(InputError, match="already holds something else \\(metrics.json\\)"):
        evaluate.main(arguments(data, model, foreign))
    (foreign / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="already holds something else \\(thesis.tex\\)"):
        evaluate.main(arguments(data, model, foreign))
    with pytest.raises(InputError, match="is a file; name a folder"):
        evaluate.main(arguments(data, model, file))
    assert (foreign / "metrics.json").read_text() == '{"loss": 1}'


def test_help_is_quick_and_shows_an_example():
    """It must not import TensorFlow or Beam."""
    code = (
        "import sys; from beambert.pipelines import evaluate\n"
        "try: evaluate.main(['--help'])\n"
        "finally: assert not {'tensorflow', 'apache_beam', 'matplotlib'} & set(sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "examples:\n  # the dev split of SST-2" in result.stdout


@pytest.mark.slow
def test_every_folder_may_be_on_gs(gs, blessed, data, model, tmp_path, capsys):
    """The results are those of local folders, and everything is called by its own name."""
    root = f"{gs}/{tmp_path.name}"
    for name, folder in (("data", data), ("model", model)):
        tensorflow_files.copy(str(folder), f"{root}/{name}")
    tensorflow_files.write_bytes(f"{root}/model/checkpoints/ckpt-1.index", b"large")
    there = arguments(f"{root}/data", f"{root}/model", f"{root}/first/")
    evaluate.main(there)
    evaluate.main([*there[:-1], f"--output={root}/second", f"--baseline={root}/first"])
    assert f"Report: {root}/second/report.html" in capsys.readouterr().out
    tensorflow_files.copy(f"{root}/second", str(tmp_path / "second"))
    assert sorted(path.name for path in (tmp_path / "second").iterdir()) == sorted(
        path.name for path in blessed[0].iterdir()
    )
    first, second = metrics_of(blessed[0]), metrics_of(tmp_path / "second")
    assert second["model"] == f"{root}/model" and second["data_dir"] == f"{root}/data"
    assert second["baseline"]["evaluation"] == f"{root}/first"
    assert second["baseline"]["model"] == f"{root}/model"
    for name in ("overall", "slices", "weights_sha256", "data_sha256", "details"):
        assert first[name] == second[name]
    evaluate.main([*there, "--threshold=0.9"])  # in the place of the first
    names = tensorflow_files.list_folder(f"{root}/first")
    assert "NOT_BLESSED" in names and "BLESSED" not in names
    for flag, message in (
        (f"--data_dir={root}/none", f"--data_dir={root}/none: not a local folder"),
        (f"--model={root}/none", f"--model={root}/none: has no saved_model"),
        (f"--baseline={root}/none", f"--baseline={root}/none: holds no finished evaluation"),
        (f"--output={root}/data", f"--output={root}/data: already holds something else"),
        (f"--output={gs}/forbidden/o", "forbidden/o: cannot be .*403"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate.main([*there, flag])
