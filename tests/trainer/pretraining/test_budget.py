"""`beambert pretrain --budget` and `--dry_run`."""

import contextlib
import json
import re
import types

import pytest
from support import small_pretraining

from beambert.errors import InputError
from beambert.folders import UNFINISHED_FILE
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.loop import loop, phases, progress
from beambert.trainer.loop.steps import Trainer
from beambert.trainer.pretraining import cost, estimate
from beambert.trainer.pretraining import run as pretraining_run
from beambert.trainer.pretraining.job import Budget


def flags(records, config, model_dir, **others) -> list[str]:
    others = {"num_train_steps": None} | others
    return small_pretraining.flags(records, config, model_dir, **others)


@pytest.mark.parametrize(
    ("text", "seconds", "operations"),
    [
        ("90s", 90, None),
        ("30min", 1800, None),
        ("1.5h", 5400, None),
        ("2d", 172_800, None),
        ("1e17flops", None, 1e17),
        ("2.5e+3flops", None, 2500),
    ],
)
def test_budgets_are_read(text, seconds, operations):
    assert Budget.parse(text) == Budget(seconds, operations)


@pytest.mark.parametrize(
    "text", ["", "30", "min", "-5min", "0h", "1e17", "nanh", "1e999flops", "5s"]
)
def test_other_texts_are_refused(text):
    with pytest.raises(InputError, match=f"--budget={re.escape(text)}: must be"):
        Budget.parse(text)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"num_train_steps": 5}, "--num_train_steps=5: --budget=1h decides the number of steps"),
        ({"num_warmup_steps": 5}, "--num_warmup_steps=5: --budget=1h decides"),
        (
            {"masking": "dynamic", "mask_rate": "0.3:0.15"},
            "--mask_rate: a rate that changes needs a number of steps",
        ),
        ({"budget": "3e5flops"}, "--budget: is enough for about 0 steps"),
        ({"budget": "1e30flops"}, "--budget: is enough for"),
    ],
)
def test_what_a_budget_excludes(records_folder, small_config_file, tmp_path, others, message):
    with pytest.raises(InputError, match=re.escape(message)):
        pretrain_main(
            flags(records_folder, small_config_file, tmp_path / "m", **{"budget": "1h"} | others)
        )
    assert not (tmp_path / "m").exists()


def test_a_time_that_the_evaluation_would_take_is_refused(
    records_folder, small_config_file, tmp_path, monkeypatch
):
    held_out = json.loads((records_folder / "eval" / "info.json").read_text())
    instances = sum(file["instances"] for file in held_out["files"])
    # In a minute the machine does the operations of as many updates as the evaluation has batches,
    # each of which takes a third.
    updates = instances / 8 / 3
    flops = shape_flops(small_config_file, records_folder)
    monkeypatch.setattr(cost, "capacity_for", lambda *_: None)
    monkeypatch.setattr(cost, "LEAST_STEPS", 1)
    model = tmp_path / "m"
    for share, is_begun, is_refused in (
        (0.99, False, True),
        (1.01, False, False),
        (0.99, True, False),
    ):
        if is_begun:  # What a training has written on a faster machine.
            model.mkdir()
            settings = {"budget_seconds": 60, "num_train_steps": 99, "num_warmup_steps": 9}
            (model / UNFINISHED_FILE).write_text(json.dumps({"optimizer": settings}))
        peak = share * updates * flops / 60 / cost.USUAL_UTILISATION
        monkeypatch.setattr(cost, "matmul_peak", lambda *_, peak=peak: peak)
        arguments = flags(records_folder, small_config_file, model, budget="1min")
        message = f"the evaluation of the {instances:,} held-out instances"
        with pytest.raises(InputError, match=message) if is_refused else contextlib.nullcontext():
            pretrain_main([*arguments, "--dry_run"])


def shape_flops(config_file, records_folder, batch: int = 8) -> float:
    """Returns the operations of an update, of padded batches (Kaplan et al. 2020)."""
    config = json.loads(config_file.read_text())
    info = json.loads((records_folder / "info.json").read_text())["parameters"]
    h, f, v = (config[name] for name in ("hidden_size", "intermediate_size", "vocab_size"))
    length, slots = info["max_seq_length"], info["max_predictions_per_seq"]
    token = config["num_hidden_layers"] * (4 * h * h + 2 * h * f + 2 * length * h)
    return 6 * batch * (length * token + slots * (h * h + h * v))


@pytest.mark.release
def test_a_budget_of_operations_is_a_number_of_steps(
    records_folder, small_config_file, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(cost, "capacity_for", lambda *_: None)
    budget = 20.5 * shape_flops(small_config_file, records_folder)
    arguments = flags(
        records_folder, small_config_file, tmp_path / "m", budget=f"{budget:.0f}flops"
    )
    pretrain_main(arguments)
    settings = json.loads((tmp_path / "m" / "training.json").read_text())["optimizer"]
    assert (settings["num_train_steps"], settings["num_warmup_steps"]) == (20, 2)
    assert "budget_seconds" not in settings
    # A tenth of the steps lies between two checkpoints.
    saved = {path.stem for path in (tmp_path / "m" / "checkpoints").glob("*.index")}
    assert saved >= {"ckpt-18", "ckpt-20"}
    assert not (tmp_path / "m" / "time_spent.json").exists()
    given = flags(records_folder, small_config_file, tmp_path / "n", num_train_steps=20)
    pretrain_main(given)
    small_pretraining.assert_same_weights(tmp_path / "m", tmp_path / "n")
    capsys.readouterr()
    pretrain_main(arguments)
    assert "already finished" in capsys.readouterr().out


SECONDS_A_STEP = 0.05


class Clock(types.SimpleNamespace):
    """A clock that goes on with the updates and the evaluations alone, at any speed."""

    def __init__(self):
        super().__init__(seconds=0.0, speed=1.0)

    def monotonic(self) -> float:
        return self.seconds

    def spent(self) -> type[phases.TimeSpent]:
        """A class that counts the time of a training by this clock."""
        clock = self

        class Spent(phases.TimeSpent):
            def __init__(self, folder, started):
                super().__init__(folder, clock=clock.monotonic)

        return Spent

    def rule(self, patch) -> None:
        """Makes trainings go by this clock, so that a test doesn't depend on the machine."""
        train_steps, evaluate = Trainer.train_steps, Trainer.evaluate

        def timed_steps(trainer, iterator, steps):
            self.seconds += steps * SECONDS_A_STEP / self.speed
            return train_steps(trainer, iterator, steps)

        def timed_evaluation(trainer, dataset, report, score):
            def see(done):
                self.seconds += SECONDS_A_STEP / 3 / self.speed
                report(done)

            return evaluate(trainer, dataset, see, score)

        patch.setattr(Trainer, "train_steps", timed_steps)
        patch.setattr(Trainer, "evaluate", timed_evaluation)
        patch.setattr(progress, "time", self)
        patch.setattr(loop, "time", self)
        patch.setattr(progress, "SECONDS_A_REPORT", 0.5)
        patch.setattr(progress, "SECONDS_A_CALL", 0.2)
        patch.setattr(pretraining_run, "TimeSpent", self.spent())


@pytest.fixture(scope="module")
def timed(records_folder, small_config_file, tmp_path_factory):
    """A training of 15 seconds that stops after a third, and then goes on at half the speed."""
    folder = tmp_path_factory.mktemp("timed") / "m"
    others = {"budget": "15s", "eval_steps": 10**6, "save_checkpoints_steps": 40}
    arguments = flags(records_folder, small_config_file, folder, **others)
    clock = Clock()

    class Stopped(clock.spent()):
        def save(self):
            super().save()
            if self.seconds > 5:
                raise InputError("stopped")

    with pytest.MonkeyPatch.context() as patch:
        clock.rule(patch)
        patch.setattr(pretraining_run, "TimeSpent", Stopped)
        with pytest.raises(InputError, match="stopped"):
            pretrain_main(arguments)
        stopped, clock.speed = clock.seconds, 0.5
        patch.setattr(pretraining_run, "TimeSpent", clock.spent())
        pretrain_main(arguments)
    return arguments, folder, stopped, clock.seconds


@pytest.mark.release
def test_a_time_is_kept_by_two_processes(timed):
    _, folder, stopped, ended = timed
    spent = json.loads((folder / "time_spent.json").read_text())["seconds"]
    assert 5 < stopped < 6
    assert ended == pytest.approx(15, rel=0.03)
    assert spent == pytest.approx(ended)


@pytest.mark.release
def test_the_learning_rate_falls_to_zero_when_the_time_is_over(timed):
    _, folder, _, _ = timed
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    rates = [row["learning_rate"] for row in rows if row["split"] == "train"]
    peak = rates.index(max(rates))
    assert max(rates) == pytest.approx(5e-3, rel=0.15)
    assert sorted(rates[peak:], reverse=True) == rates[peak:]
    assert rates[-1] < 0.02 * max(rates)


@pytest.mark.slow
def test_the_folder_of_a_time_keeps_its_budget(timed, capsys):
    arguments, folder, _, _ = timed
    capsys.readouterr()
    pretrain_main(arguments)
    assert "already finished" in capsys.readouterr().out
    plain = [each for each in arguments if "budget" not in each]
    for others in ([], ["--budget=20s"]):
        with pytest.raises(InputError, match=r"already holds .* of another job \(--budget"):
            pretrain_main([*plain, *others])


@pytest.mark.slow
def test_a_dry_run_says_what_a_training_would_take(
    records_folder, small_config_file, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(estimate, "SECONDS_MEASURED", 0.3)
    monkeypatch.setattr(cost, "capacity_for", lambda *_: None)
    arguments = flags(
        records_folder, small_config_file, tmp_path / "m", num_train_steps=1000, dry_run=""
    )
    arguments = [each.removesuffix("=") for each in arguments]
    pretrain_main(arguments)
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert not (tmp_path / "m").exists()
    flops = shape_flops(small_config_file, records_folder)
    assert float(lines["operations"]) == pytest.approx(1000 * flops, rel=0.01)
    rate = float(re.match(r"([\d.e+,]+) steps/s", lines["rate"])[1].replace(",", ""))
    assert rate > 0 and "measured" in lines["rate"]


@pytest.fixture
def guessed_too_fast(monkeypatch):
    """A machine whose peak is said to be 100,000 times what it is."""
    peak = cost.matmul_peak
    monkeypatch.setattr(cost, "matmul_peak", lambda *which: 1e5 * peak(*which))


@pytest.mark.slow
def test_a_dry_run_bears_a_guess_that_is_far_too_high(
    records_folder, small_config_file, tmp_path, monkeypatch, capsys, guessed_too_fast
):
    monkeypatch.setattr(estimate, "SECONDS_MEASURED", 0.3)
    arguments = flags(records_folder, small_config_file, tmp_path / "m", budget="1min")
    pretrain_main([*arguments, "--dry_run"])
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    steps = int(lines["data"].split(" steps of ")[0].replace(",", ""))
    rate = float(re.match(r"([\d.e+,]+) steps/s", lines["rate"])[1].replace(",", ""))
    assert steps == pytest.approx(60 * rate, rel=0.02)


@pytest.mark.slow
def test_a_guess_that_is_far_too_high_leaves_the_time_to_the_training(
    records_folder, small_config_file, tmp_path, monkeypatch, capsys, guessed_too_fast
):
    """Evaluations are reserved for the updates that fit, not for those that were guessed."""
    clock = Clock()
    clock.rule(monkeypatch)
    others = {"budget": "30s", "eval_steps": 20}
    pretrain_main(flags(records_folder, small_config_file, tmp_path / "m", **others))
    assert "of its schedule" not in capsys.readouterr().out
    assert clock.seconds == pytest.approx(30, rel=0.03)
    settings = json.loads((tmp_path / "m" / "training.json").read_text())["optimizer"]
    assert settings["num_train_steps"] > 100_000
    # A tenth of the updates however many they are.
    assert settings["num_warmup_steps"] == settings["num_train_steps"] // 10
    rows = map(json.loads, (tmp_path / "m" / "metrics.jsonl").read_text().splitlines())
    rates = [row["learning_rate"] for row in rows if row["split"] == "train"]
    assert rates[-1] < 0.1 * max(rates)


@pytest.mark.slow
def test_a_time_that_is_over_is_told(
    records_folder, small_config_file, tmp_path, monkeypatch, capsys
):
    """The command has been at work for longer than its budget when the first rate is known."""
    monkeypatch.setattr(
        pretraining_run,
        "TimeSpent",
        lambda folder, started: phases.TimeSpent(folder, started - 1000),
    )
    monkeypatch.setattr(progress, "SECONDS_A_REPORT", 0.1)
    monkeypatch.setattr(progress, "SECONDS_A_CALL", 0.05)
    pretrain_main(flags(records_folder, small_config_file, tmp_path / "m", budget="15s"))
    assert capsys.readouterr().out.count("--budget: no time is left besides the evaluation") == 1
