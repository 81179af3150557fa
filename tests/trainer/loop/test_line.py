"""The training loop on a model of one weight, and its lines of progress."""

import errno
import os
import signal
import weakref

import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from support.small_training import SEED

from beambert import console
from beambert.errors import InputError
from beambert.model.layers import dropout
from beambert.trainer.loop import checkpoints, progress
from beambert.trainer.loop.checkpoints import Checkpoints, write_checkpoint
from beambert.trainer.loop.config import LoopConfig, OptimizerConfig, TrainingFolders
from beambert.trainer.loop.engines.tensorflow import TensorFlow
from beambert.trainer.loop.loop import Interrupted, train
from beambert.trainer.loop.objectives import Objective, is_correct
from beambert.trainer.loop.steps import Phase, Trainer

# A test looks at what is compiled.
WITH_XLA = True


class Line(keras.Model):
    """A weight for every element, so that gradients show what each replica saw."""

    def __init__(self):
        super().__init__(name="line")
        self.weight = self.add_weight(name="kernel", shape=(64,), initializer="zeros")
        self.built = True


class LineObjective(Objective):
    losses = ("line",)
    weight_of = {"line": "examples"}

    def weights(self, features):
        return {"examples": tf.cast(tf.shape(features["x"])[0], tf.float32)}

    def sums(self, model, features, dropout_seed):
        kept = dropout(features["x"], 0.5, dropout_seed, site=0)
        return {"line": tf.reduce_sum(kept * tf.convert_to_tensor(model.weight))}


def line_trainer(strategy=None, objective=None) -> Trainer:
    return Trainer(
        TensorFlow(strategy),
        Line,
        objective or LineObjective(),
        OptimizerConfig(0.1, num_train_steps=6, num_warmup_steps=0),
        SEED,
    )


def line_batches(bad_step: int, value: float):
    x = np.ones((6, 2, 64), np.float32)
    x[bad_step:] = value
    return lambda step: iter(tf.data.Dataset.from_tensor_slices({"x": x[step:]}))


def train_line(trainer, batches_from, config, folder) -> dict[str, float]:
    phase = Phase(6, batches_from, None, sequences_a_step=2, tokens_a_step=1)
    return train(trainer, [phase], config, TrainingFolders(str(folder)))


@pytest.mark.slow
def test_an_interrupt_of_the_last_call_counts(tmp_path, monkeypatch, capsys):
    train_steps = Trainer.train_steps

    def interrupted(self, *args):
        os.kill(os.getpid(), signal.SIGINT)
        return train_steps(self, *args)

    config = LoopConfig(2, SEED)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_steps", interrupted)
        trainer = line_trainer()
        trainer.steps_done = 5
        with pytest.raises(Interrupted):
            train_line(trainer, line_batches(6, 0), config, tmp_path)
    assert "stopped at step 6 of 6" in capsys.readouterr().out
    assert train_line(line_trainer(), line_batches(6, 0), config, tmp_path) == {}
    assert "continuing from step 6" in capsys.readouterr().out


def test_a_second_interrupt_ends_at_once(tmp_path, monkeypatch):
    calls = []

    def interrupted_twice(*_):
        calls.append(1)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the second Ctrl-C did not interrupt")

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(Trainer, "train_steps", interrupted_twice)
    with pytest.raises(KeyboardInterrupt):
        train_line(line_trainer(), line_batches(6, 0), LoopConfig(2, SEED), tmp_path)
    assert calls == [1]
    assert signal.getsignal(signal.SIGINT) is before


def test_storage_that_does_not_answer_is_no_new_beginning(tmp_path, monkeypatch):
    def fails(path):
        raise OSError(errno.EIO, "try again later", path)

    (tmp_path / "checkpoints" / "ckpt-000008").mkdir(parents=True)
    monkeypatch.setattr(os, "listdir", fails)
    with pytest.raises(InputError, match="cannot be listed .*try again later.* same command"):
        Checkpoints(TrainingFolders(str(tmp_path)), keep=3).restore_newest(pytest.fail)


def test_all_checkpoints_are_kept_and_others_read_them(tmp_path):
    config = LoopConfig(2, SEED, save_checkpoints_steps=3, keep_checkpoints="all")
    trainer = line_trainer()
    train_line(trainer, line_batches(6, 0), config, tmp_path)
    kept = sorted((tmp_path / "checkpoints").iterdir())
    assert [path.name for path in kept] == ["ckpt-000000", "ckpt-000003", "ckpt-000006"]
    files = [safetensors.numpy.load_file(path / "model.safetensors") for path in kept]
    assert [file.keys() for file in files] == 3 * [{"line/kernel"}]
    assert not files[0]["line/kernel"].any() and files[1]["line/kernel"].any()
    np.testing.assert_array_equal(files[2]["line/kernel"], trainer.model.get_weights()[0])
    continued = line_trainer()
    assert train_line(continued, None, config, tmp_path) == {}
    np.testing.assert_array_equal(continued.model.get_weights()[0], files[2]["line/kernel"])


def test_a_checkpoint_of_another_model_is_refused(tmp_path, capsys):
    arrays = {"line/kernel": np.zeros(32, np.float32)}
    moments = {f"line/kernel/adam_{each}": arrays["line/kernel"] for each in "mv"}
    state = {"model": arrays, "optimizer": moments}
    write_checkpoint(f"{tmp_path}/checkpoints/ckpt-000003", 3, state, {})
    with pytest.raises(InputError, match="none of its checkpoints can be read"):
        train_line(line_trainer(), None, LoopConfig(2, SEED), tmp_path)
    assert "(line/kernel has shape (32,), that of the model is (64,))" in capsys.readouterr().out


def test_a_full_disk_ends_the_training(tmp_path, monkeypatch):
    """Though a thread writes the checkpoints."""

    def create(path, *_):
        raise InputError(f"{path}: cannot be written (No space left on device)")

    monkeypatch.setattr(checkpoints.io, "create", create)
    made = []

    def batches_from(step):
        batches = line_batches(6, 0)(step)
        made.append(weakref.ref(batches))
        return batches

    with pytest.raises(InputError, match="No space left on device") as caught:
        train_line(line_trainer(), batches_from, LoopConfig(2, SEED), tmp_path)
    # Else the thread that makes them could keep Python from ending.
    assert caught.tb and [batches() for batches in made] == [None]


def test_an_evaluation_ends_when_its_time_is_over():
    done = []
    line_trainer().evaluate(line_batches(6, 0)(0), done.append, seconds=0.0)
    assert done[-1] < 6


@pytest.mark.slow
@pytest.mark.parametrize(("bad_step", "value"), [(3, np.nan), (5, np.inf)])
def test_a_loss_that_is_no_number_stops(tmp_path, value, bad_step):
    config = LoopConfig(2, SEED, save_checkpoints_steps=2)
    with pytest.raises(InputError) as caught:
        train_line(line_trainer(), line_batches(bad_step, value), config, tmp_path)
    last = bad_step // 2 * 2 + 2
    batch = f"the sequences {2 * bad_step} to {2 * bad_step + 1}"
    assert f"since step {bad_step} the loss is " in str(caught.value) and batch in str(caught.value)
    assert "--learning_rate" in str(caught.value) and str(tmp_path) in str(caught.value)
    assert not list((tmp_path / "checkpoints").glob(f"ckpt-{last:06d}")), "spoilt weights are saved"


def test_a_last_gradient_that_is_no_number_stops(tmp_path):
    class Spoilt(LineObjective):
        def sums(self, model, features, dropout_seed):
            # The loss is 0, the gradient of the square root there is infinite.
            return {"line": tf.reduce_sum(tf.sqrt(tf.convert_to_tensor(model.weight)))}

    trainer = line_trainer(objective=Spoilt())
    config = LoopConfig(2, SEED, save_checkpoints_steps=1)
    with pytest.raises(InputError, match="since step 0 .* norm is (inf|nan)"):
        train_line(trainer, line_batches(6, 0), config, tmp_path)


@pytest.mark.slow
def test_replicas_draw_different_masks(two_devices):
    trainer = line_trainer(two_devices)
    batches = tf.data.Dataset.from_tensors({"x": tf.ones([2, 64])}).repeat()
    trainer.train_steps(iter(two_devices.experimental_distribute_dataset(batches)), 1)
    (moment,) = trainer._optimizer.means
    levels = np.unique(np.round(moment.numpy() / moment.numpy().max(), 3))
    # Each replica has one row: kept by none, one or both.
    np.testing.assert_array_equal(levels, [0, 0.5, 1])


@pytest.mark.slow
def test_the_loop_runs_on_two_devices(two_devices, tmp_path, capsys):
    data = tf.data.Dataset.from_tensors({"x": tf.ones([2, 64])}).repeat()
    distributed = two_devices.experimental_distribute_dataset(data)
    for expected in ("step 6/6", "continuing from step 6"):
        trainer = line_trainer(two_devices)
        train_line(trainer, lambda _: iter(distributed), LoopConfig(2, SEED), tmp_path)
        assert expected in capsys.readouterr().out


def test_each_step_draws_other_masks():
    trainer = line_trainer()
    iterator = iter(tf.data.Dataset.from_tensors({"x": tf.ones([1, 64])}).repeat())
    moments = []
    for _ in range(2):
        trainer.train_steps(iterator, 1)
        moments.append(trainer._optimizer.means[0].numpy() > 0)
    assert not np.array_equal(*moments)


@pytest.mark.parametrize("is_tpu", [False, True])
def test_on_a_tpu_no_part_of_a_step_is_compiled_by_itself(is_tpu, monkeypatch):
    if is_tpu:
        monkeypatch.setattr(tf.distribute, "TPUStrategy", type(tf.distribute.get_strategy()))
    iterator = iter(tf.data.Dataset.from_tensors({"x": tf.ones([1, 64])}))
    number = tf.constant(1, tf.int64)
    trainer = line_trainer()  # the graph does not hold it
    step = trainer._programs._train_steps
    graph = step.get_concrete_function(iterator, number, number).graph
    functions = graph.as_graph_def().library.function
    assert any(function.attr["_XlaMustCompile"].b for function in functions) is not is_tpu


def test_a_call_is_short_for_signals_and_a_line_is_rare(monkeypatch):
    """A signal waits for the end of a call, and nobody reads a line every two seconds."""
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    phase = Phase(1000, None, None, 4, tokens_a_step=512)
    meter, step, calls, lines = progress.Meter(1000, phase, 0), 0, [], []
    for seconds_a_step in [0.5] * 20 + [0.05] * 20 + [8.0] * 2:
        steps = meter.steps_a_call()
        meter.restart()
        now += steps * seconds_a_step
        step += steps
        meter.update(step, steps)
        calls.append(steps * seconds_a_step)
        if meter.is_due():
            lines.append(now)
    assert calls[:3] == [0.5, 0.5, 2.5] and calls[21:39] == pytest.approx([2.5] * 18)
    assert calls[-1] == 8.0  # one update
    assert lines[:4] == pytest.approx([0.5, 1.0, 11.0, 21.0], abs=0.6)
    assert len(lines) < 15


def test_what_ends_after_a_time_has_no_more_left_than_that(monkeypatch):
    now, lines = 0.0, []
    monkeypatch.setattr(console.time, "monotonic", lambda: now)
    report = console.show_progress("batches", lines.append, most=60.0)
    for done, seconds in enumerate((38, 10), start=1):
        now += seconds
        report(done, 100)
    assert lines == ["2 of 100 batches, 0.10/s, 12 s left"]


SHAPES = [(5,), (50, 7), (6, 4, 3), (64, 1000)]


def drawn(shape):
    """Logits of few different values, so that many are equal, and labels."""
    generator = np.random.default_rng(len(shape))
    logits = generator.integers(-3, 4, shape) * generator.choice([0.5, 20.0], shape)
    labels = generator.integers(0, shape[-1], shape[:-1])
    return tf.constant(logits, tf.float32), tf.constant(labels, tf.int32)


@pytest.mark.parametrize("shape", SHAPES)
def test_correct_is_the_first_of_the_largest(shape):
    logits, labels = drawn(shape)
    expected = np.argmax(logits, axis=-1) == labels.numpy()
    np.testing.assert_array_equal(is_correct(logits, labels), expected)


def test_nothing_is_correct_if_a_logit_is_no_number():
    logits = tf.constant([[np.nan, 1.0], [1.0, np.nan]])
    for label in (0, 1):
        assert is_correct(logits, tf.constant([label, label])).numpy().tolist() == [0.0, 0.0]
