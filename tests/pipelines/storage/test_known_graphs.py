"""Foreign SavedModels: what runs without a word, and what only with --trust_model."""

import pytest
import tensorflow as tf
from support import stand_in_models

from beambert import saved_models
from beambert.errors import InputError
from beambert.pipelines.tasks import saved_models as prediction_models
from beambert.pipelines.tasks.find_model import find_model

TEXT = tf.TensorSpec([None], tf.string, name="text")


def _answer(text, label):
    count = tf.shape(text)[0]
    return {"label": tf.repeat(label, count), "probabilities": tf.ones([count, 2]) / 2}


class Reader(tf.Module):
    """Answers with the content of a file."""

    @tf.function(autograph=False)
    def __call__(self, text):
        return _answer(text, tf.io.read_file("/etc/passwd"))


class HiddenWriter(tf.Module):
    """Writes a file, in the body of a loop inside of a condition."""

    def __init__(self, path):
        super().__init__()
        self._path = path

    @tf.function(autograph=False)
    def __call__(self, text):
        def write(count):
            with tf.control_dependencies([tf.io.write_file(self._path, text[0])]):
                return (count + 1,)

        def loop():
            return tf.while_loop(lambda count: count < 1, write, [tf.constant(0)])[0]

        done = tf.cond(tf.size(text) > 0, loop, lambda: 0)
        with tf.control_dependencies([done]):
            return _answer(text, "positive")


class Saver(tf.Module):
    """Writes a checkpoint wherever it likes, with the operation that every SavedModel has."""

    @tf.function(autograph=False)
    def __call__(self, text):
        tf.raw_ops.SaveV2(
            prefix="/tmp/stolen", tensor_names=["a"], shape_and_slices=[""], tensors=[text]
        )
        return _answer(text, "positive")


class Python(tf.Module):
    """Calls Python."""

    @tf.function(autograph=False)
    def __call__(self, text):
        label = tf.numpy_function(lambda: b"positive", [], tf.string)
        return _answer(text, tf.reshape(label, []))


class Table(tf.Module):
    """Reads a file when it is loaded."""

    def __init__(self, path):
        super().__init__()
        words = tf.lookup.TextFileInitializer(path, tf.string, 0, tf.int64, 1, delimiter=" ")
        self.table = tf.lookup.StaticHashTable(words, 0)

    @tf.function(autograph=False)
    def __call__(self, text):
        with tf.control_dependencies([self.table.lookup(text)]):
            return _answer(text, "positive")


def save(module, folder):
    return stand_in_models.save_model(module, folder, stand_in_models.LABELS, text=TEXT)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _: Reader(), r"\(ReadFile\)"),
        (lambda folder: HiddenWriter(f"{folder}/stolen"), r"\(WriteFile\)"),
        (lambda _: Saver(), r"\(SaveV2\)"),
        (lambda _: Python(), r"\(.*PyFunc"),
        (lambda folder: Table(f"{folder}/words.txt"), "its graph "),
    ],
)
def test_a_graph_that_does_more_than_compute_is_refused(tmp_path, make, reason):
    (tmp_path / "words.txt").write_text("a 1\n")
    folder = save(make(tmp_path), tmp_path)
    with pytest.raises(InputError, match=f"--model=.*{reason}.*--trust_model") as caught:
        find_model(str(folder), "classification")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=reason):
        saved_models.load(f"{folder}/saved_model", "--model=x")


def test_a_trusted_graph_runs(tmp_path):
    folder = save(HiddenWriter(f"{tmp_path}/written"), tmp_path)
    model = find_model(str(folder), "classification", trusts=True)
    saved_models.call_on_texts(prediction_models.load(model), [{"text": "mine"}])
    assert (tmp_path / "written").read_text() == "mine"


def test_a_graph_of_an_unknown_form_is_refused(tmp_path):
    """TensorFlow would run its initializer in a session, by another path than the functions."""
    graph = saved_models.read_graph(
        str(save(stand_in_models.Classifier(), tmp_path) / "saved_model")
    )
    graph.meta_graphs[0].ClearField("object_graph_def")
    with pytest.raises(InputError, match="--model=x: is a SavedModel of another form"):
        saved_models.check_graph(graph, "--model=x")


def test_two_functions_of_one_name_are_refused(tmp_path):
    """One would be looked at, and the other one might run."""
    graph = saved_models.read_graph(
        str(save(stand_in_models.Classifier(), tmp_path) / "saved_model")
    )
    library = graph.meta_graphs[0].graph_def.library.function
    twin = library.add()
    twin.CopyFrom(library[0])
    twin.node_def.add(op="WriteFile")
    library.append(library[0])
    with pytest.raises(InputError, match="--model=x: has two functions of one name"):
        saved_models.check_graph(graph, "--model=x")


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    class Weighted(tf.Module):
        def __init__(self):
            super().__init__()
            self.weight = tf.Variable([0.5, float("nan")])

        @tf.function(autograph=False)
        def __call__(self, text):
            return {**_answer(text, "positive"), "weight": self.weight.read_value()}

    folder = save(Weighted(), tmp_path)
    with pytest.raises(InputError, match="cannot be loaded .*weight.* no finite numbers"):
        find_model(str(folder), "classification", trusts=True)


def test_a_pipe_among_its_files_is_refused(tmp_path):
    import os

    folder = save(stand_in_models.Classifier(), tmp_path)
    (folder / "saved_model" / "saved_model.pb").unlink()
    os.mkfifo(folder / "saved_model" / "saved_model.pb")
    with pytest.raises(InputError, match="saved_model.pb: cannot be read .*not a regular file"):
        saved_models.load(f"{folder}/saved_model", "--model=x")
