"""`--finish` ends a training early, `--extend` goes on from a finished one."""

import json
import os
import shutil
import signal

import h5py
import numpy as np
import pytest
from support.small_training import NextSentenceObjective, Words

from beambert.errors import InputError
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.loop import progress
from beambert.trainer.loop.config import EXTEND, FINISH, OptimizerConfig, Revision
from beambert.trainer.loop.loop import Interrupted
from beambert.trainer.loop.optimization import learning_rate_at
from beambert.trainer.loop.steps import Trainer
from beambert.trainer.pretraining import run as pretraining_run
from beambert.trainer.pretraining.plan import Stretch, stretches
from beambert.trainer.pretraining.revising import extension, finishing

PLANNED = 20


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "start"), [("adamw", 0), ("adamw_corrected", 10)])
def test_the_rates_of_a_revised_schedule(optimizer, start):
    revisions = (Revision(FINISH, 50, 60), Revision(EXTEND, 60, 200, 14))
    config = OptimizerConfig(1e-3, 100, 10, optimizer=optimizer, revisions=revisions)
    rates = [float(learning_rate_at(step, config)) for step in range(201)]
    planned = np.arange(201)
    first = 1e-3 * np.where(planned < 10, planned / 10, 1 - (planned - start) / (100 - start))
    np.testing.assert_allclose(rates[:50], first[:50], rtol=1e-5)
    np.testing.assert_allclose(rates[50:60], first[50] * np.linspace(1, 0.1, 10), rtol=1e-5)
    longer = 1e-3 * (1 - (planned - start) / (200 - start))
    rising = np.arange(14) / 14
    np.testing.assert_allclose(rates[60:74], longer[60:74] * rising, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(rates[74:], longer[74:], rtol=1e-4, atol=1e-9)


def test_a_schedule_without_revisions_names_none():
    """A folder of a training from before there were revisions is continued."""
    assert "revisions" not in OptimizerConfig(1e-3, 100, 10).settings()
    (named,) = OptimizerConfig(1e-3, 9, 1, revisions=(Revision(FINISH, 5, 6),)).settings()[
        "revisions"
    ]
    assert named["first_step"] == 5


def spans(found: list[Stretch]) -> list[tuple[bool, int, int, int]]:
    return [(s.is_long, s.first_step, s.last_step, s.batches_before) for s in found]


@pytest.mark.parametrize(
    ("long_share", "revisions", "expected"),
    [
        (None, [], [(False, 0, 100, 0)]),
        (0.1, [], [(False, 0, 90, 0), (True, 90, 100, 0)]),
        (None, [Revision(FINISH, 50, 53)], [(False, 0, 53, 0)]),
        (0.1, [Revision(FINISH, 50, 53)], [(False, 0, 50, 0), (True, 50, 53, 0)]),
        (0.1, [Revision(FINISH, 95, 97)], [(False, 0, 90, 0), (True, 90, 97, 0)]),
        (0.1, [Revision(FINISH, 50, 50)], [(False, 0, 50, 0)]),
        (
            0.1,
            [Revision(EXTEND, 100, 200)],
            [(False, 0, 90, 0), (True, 90, 100, 0), (False, 100, 190, 90), (True, 190, 200, 10)],
        ),
        (
            0.1,
            [Revision(EXTEND, 100, 200), Revision(FINISH, 120, 126)],
            [(False, 0, 90, 0), (True, 90, 100, 0), (False, 100, 120, 90), (True, 120, 126, 10)],
        ),
    ],
)
def test_each_stretch_goes_on_where_its_data_ended(long_share, revisions, expected):
    assert spans(stretches(100, long_share, revisions)) == expected


def test_finishing_takes_a_share_of_the_steps_done():
    optimizer = OptimizerConfig(1e-3, 100, 10)
    assert finishing(0.05, False, optimizer, [10, 50]) == Revision(FINISH, 50, 53)
    assert finishing(0.0, False, optimizer, [50]) == Revision(FINISH, 50, 50)
    assert finishing(0.05, False, optimizer, [99]) == Revision(FINISH, 99, 100)
    assert finishing(0.05, False, optimizer, [100]) is None
    assert finishing(0.05, True, optimizer, [50]) is None
    with pytest.raises(InputError, match="^--finish: the training has no checkpoint yet"):
        finishing(0.05, False, optimizer, [])


def test_what_cannot_be_extended_is_refused():
    optimizer = OptimizerConfig(1e-3, 100, 10)
    assert extension(300, True, optimizer, [50, 100]) == Revision(EXTEND, 100, 300, 20)
    for steps, finished, message in (
        (300, False, "is not finished"),
        (100, True, "has 100 steps already"),
    ):
        with pytest.raises(InputError, match=f"^--extend={steps}: .*{message}"):
            extension(steps, finished, optimizer, [50, 100])
    with pytest.raises(InputError, match="checkpoint of step 100 is missing"):
        extension(300, True, optimizer, [50])


@pytest.fixture
def run(records_folder, small_config_file, monkeypatch):
    """Runs the command; `stop_before` is the step at which it is interrupted."""
    train_steps = Trainer.train_steps
    monkeypatch.setattr(pretraining_run, "build_pretrainer", lambda *_: Words(rate=0.1))
    monkeypatch.setattr(pretraining_run, "make_objective", lambda *_: NextSentenceObjective((32,)))
    # It has no masked LM.
    monkeypatch.setattr(pretraining_run, "losses_per_character", lambda *_: {})
    monkeypatch.setattr(progress, "SECONDS_A_CALL", 1e-9)  # one update a call

    def run_(folder, *more: str, stop_before: int | None = None, **others) -> None:
        def stopping(self, *args):
            if self.steps_done + 1 == stop_before:
                os.kill(os.getpid(), signal.SIGTERM)
            return train_steps(self, *args)

        monkeypatch.setattr(Trainer, "train_steps", stopping)
        values = {
            "data": records_folder,
            "model": small_config_file,
            "model_dir": folder,
            "num_train_steps": PLANNED,
            "num_warmup_steps": 2,
            "train_batch_size": 8,
            "learning_rate": 1e-3,
        } | others
        pretrain_main([*(f"--{name}={value}" for name, value in values.items()), *more])

    return run_


def weights_of(folder) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    with h5py.File(folder / "model.weights.h5") as file:
        file.visititems(lambda _, item: found.append(item[()]) if hasattr(item, "shape") else None)
    return found


def rates_of(folder) -> dict[int, float]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {row["step"]: row["learning_rate"] for row in rows if row["split"] == "train"}


@pytest.mark.release
def test_a_training_is_finished_early_and_extended(run, tmp_path, capsys):
    """Each is interrupted once, and continues to the same weights."""
    folder = tmp_path / "model"
    with pytest.raises(Interrupted):
        run(folder, stop_before=10)
    whole = shutil.copytree(folder, tmp_path / "whole")
    run(whole, "--finish=0.4")
    with pytest.raises(Interrupted):
        run(folder, "--finish=0.4", stop_before=12)
    assert not (folder / "_SUCCESS").exists()
    run(folder)  # what has begun needs no flag any more
    rates = rates_of(folder)
    assert max(rates) == 14
    # The update that ends step 11 is number 10, the first of four in which the rate falls.
    assert [rates[step] for step in (11, 12, 13, 14)] == pytest.approx(
        [1e-3 * (1 - 10 / PLANNED) * share for share in (1, 0.75, 0.5, 0.25)], rel=1e-4
    )
    for mine, theirs in zip(weights_of(folder), weights_of(whole), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    capsys.readouterr()
    run(folder, "--finish")
    assert "nothing to do" in capsys.readouterr().out

    with pytest.raises(InputError, match=r"--num_train_steps=18: .* planned for 20 steps"):
        run(folder, num_train_steps=18)
    run(whole, "--extend=18")
    with pytest.raises(Interrupted):
        run(folder, "--extend=18", stop_before=16)
    run(folder, "--extend=18")
    assert max(rates_of(folder)) == 18 and (folder / "_SUCCESS").exists()
    for mine, theirs in zip(weights_of(folder), weights_of(whole), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    capsys.readouterr()
    run(folder, "--extend=18")
    assert "nothing to do" in capsys.readouterr().out


@pytest.mark.release
@pytest.mark.parametrize(
    "flags",
    [
        ["--optimizer=muon", "--schedule=trapezoid", "--decay_share=0.5", "--beta_2=0.98"],
        ["--optimizer=lamb", "--schedule=cosine", "--dropout=0.2", "--initializer_range=0.05"],
    ],
)
def test_recipes_of_ones_own_are_interrupted_extended_and_bound_to_their_folder(
    flags, run, tmp_path
):
    folder, whole = tmp_path / "model", tmp_path / "whole"
    run(whole, *flags)
    with pytest.raises(Interrupted):
        run(folder, *flags, stop_before=10)
    for left_out in flags:
        others = [flag for flag in flags if flag != left_out]
        with pytest.raises(InputError, match=left_out.partition("=")[0]):
            run(folder, *others)
    run(folder, *flags)
    for mine, theirs in zip(weights_of(folder), weights_of(whole), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    planned = json.loads((folder / "training.json").read_text())
    pretrain_main(
        ["--recipe=tiny", f"--data={planned['data'][0]}", f"--model_dir={folder}", "--extend=22"]
    )
    extended = json.loads((folder / "training.json").read_text())["optimizer"]
    assert {name: extended[name] for name in planned["optimizer"]} == planned["optimizer"]
    config = (folder / "bert_config.json").read_text()
    assert config == (whole / "bert_config.json").read_text()


@pytest.mark.slow
def test_flags_that_are_not_given_stay_those_of_the_training(run, records_folder, tmp_path):
    """A training of 20 steps is no training of the recipe's 18,000."""
    folder = tmp_path / "model"
    run(folder)
    planned = json.loads((folder / "training.json").read_text())
    given = ["--recipe=tiny", f"--data={records_folder}", f"--model_dir={folder}"]
    message = "^--extend=10: the finished training has 20 steps already; .* in all, those included"
    with pytest.raises(InputError, match=message):
        pretrain_main([*given, "--extend=10"])
    with pytest.raises(InputError, match="planned for 20 steps; leave --num_train_steps out"):
        pretrain_main([*given, "--extend=30", "--num_train_steps=18000"])
    pretrain_main([*given, "--extend=22"])
    extended = json.loads((folder / "training.json").read_text())
    revisions = extended["optimizer"].pop("revisions")
    assert [revision["last_step"] for revision in revisions] == [22]
    assert extended["optimizer"] == planned["optimizer"] and extended["loop"] == planned["loop"]


def test_nothing_is_finished_where_nothing_was_begun(run, tmp_path):
    with pytest.raises(InputError, match="^--finish: --model_dir=.* holds no training yet"):
        run(tmp_path / "model", "--finish")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("wrong", [["--finish=1"], ["--finish=-1"], ["--finish", "--extend=9"]])
def test_impossible_revisions_are_refused(run, tmp_path, wrong):
    with pytest.raises(InputError, match="^--(finish|extend)="):
        run(tmp_path / "model", *wrong)
