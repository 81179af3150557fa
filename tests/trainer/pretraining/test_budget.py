"""`beambert pretrain --budget` and `--dry_run`."""

import json
import re

import pytest
from support import small_pretraining

from beambert.errors import InputError
from beambert.trainer.commands.pretrain import _parse
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.loop.engines.tensorflow import TensorFlow
from beambert.trainer.pretraining import cost
from beambert.trainer.pretraining import run as pretraining_run
from beambert.trainer.pretraining.job import FEW_STEPS, PretrainingJob, parse_budget
from beambert.trainer.pretraining.plan import make_plan
from beambert.trainer.pretraining.records import open_records


def flags(records, config, model_dir, **others) -> list[str]:
    others = {"num_train_steps": None} | others
    return small_pretraining.flags(records, config, model_dir, **others)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30min", 1800), ("1.5h", 5400), ("2d", 172_800)]
)
def test_budgets_are_read(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["30", "-5min", "1e17", "5s"])
def test_other_texts_are_refused(text):
    with pytest.raises(InputError, match=f"--budget={re.escape(text)}: must be"):
        parse_budget(text)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"num_train_steps": 5}, "--num_train_steps=5: --budget decides"),
        ({"num_warmup_steps": 5}, "--num_warmup_steps=5: --budget decides"),
    ],
)
def test_what_a_budget_excludes(records_folder, small_config_file, tmp_path, others, message):
    with pytest.raises(InputError, match=re.escape(message)):
        pretrain_main(
            flags(records_folder, small_config_file, tmp_path / "m", **{"budget": "1h"} | others)
        )
    assert not (tmp_path / "m").exists()


def shape_flops(config_file, records_folder, batch: int = 8) -> float:
    """Returns the operations of an update, of padded batches (Kaplan et al. 2020)."""
    config = json.loads(config_file.read_text())
    info = json.loads((records_folder / "info.json").read_text())["parameters"]
    h, f, v = (config[name] for name in ("hidden_size", "intermediate_size", "vocab_size"))
    length, slots = info["max_seq_length"], info["max_predictions_per_seq"]
    token = config["num_hidden_layers"] * (4 * h * h + 2 * h * f + 2 * length * h)
    return 6 * batch * (length * token + slots * (h * h + h * v))


def test_a_budget_decides_steps_warm_up_and_checkpoints(
    records_folder, small_config_file, tmp_path
):
    job = plan_of(records_folder, small_config_file, tmp_path, budget="1h").job
    found = pretraining_run._with_steps(job, 20)
    assert (found.optimizer.num_train_steps, found.optimizer.num_warmup_steps) == (20, 2)
    assert found.loop.save_checkpoints_steps == 2


@pytest.fixture
def measured(monkeypatch):
    """A machine that does 10 updates a second and compiles for 3 seconds, and the measurements."""
    calls = []

    def measure(plan, strategy, seconds=0):
        calls.append(plan)
        rates = {each.records.max_seq_length: 10.0 for each in plan.data}
        return pretraining_run.Measured(rates, seconds_to_compile=3.0, weights=1)

    monkeypatch.setattr(pretraining_run, "measure", measure)
    return calls


def plan_of(records, config, tmp_path, **others):
    found = flags(records, config, tmp_path / "m", **others)
    return make_plan(PretrainingJob.by_recipe(**_parse([*found, "--train_batch_size=8"])[1]))


def test_what_would_take_too_long_to_measure_is_estimated(
    records_folder, small_config_file, tmp_path, monkeypatch
):
    monkeypatch.setattr(pretraining_run, "product_speed", lambda _: 1e6)
    monkeypatch.setattr(cost, "capacity_for", lambda *_: None)
    plan = plan_of(records_folder, small_config_file, tmp_path, num_train_steps=9)
    found = pretraining_run.measure(plan, TensorFlow(), seconds=5.0)
    assert found.is_estimated
    (rate,) = found.rates.values()
    assert rate == pytest.approx(0.5e6 / shape_flops(small_config_file, records_folder))


@pytest.mark.parametrize("rate", [0.05, 50.0])
def test_evaluations_have_a_share_of_a_budget(records_folder, small_config_file, tmp_path, rate):
    """On a slow machine they would be longer than the training."""
    plan = plan_of(records_folder, small_config_file, tmp_path, budget="200s", eval_steps=10**6)
    length = plan.data[0].records.max_seq_length
    measured = pretraining_run.Measured({length: rate}, seconds_to_compile=1.0, weights=1)
    steps = pretraining_run.steps_in_time(plan, measured, 200.0)
    batches = sum(-(-each.instances // 8) for each in plan.data[0].held_out.values())
    longest = pretraining_run.make_phase(plan.data[0], plan, TensorFlow()).evaluation_seconds
    evaluating = min(batches / (3 * rate), longest)
    assert (evaluating == longest == pytest.approx(20)) == (rate < 1)
    assert steps / rate + evaluating + 2 == pytest.approx(200, rel=1e-3)


def test_few_steps_are_named_with_a_budget_for_more(
    records_folder, small_config_file, tmp_path, capsys
):
    plan = plan_of(records_folder, small_config_file, tmp_path, budget="60s")
    length = plan.data[0].records.max_seq_length
    for rate, told in (1.0, True), (100.0, False):
        measured = pretraining_run.Measured({length: rate}, seconds_to_compile=1.0, weights=1)
        steps = pretraining_run._steps_of_budget(plan, measured, 0.0)
        found = re.search(r"warning: (\d+) steps.* (\d+)min longer", capsys.readouterr().out)
        assert bool(found) == told == (steps < FEW_STEPS)
        if found:
            assert int(found[1]) == steps
            longer = pretraining_run.steps_in_time(plan, measured, 60.0 * (1 + int(found[2])))
            assert longer >= FEW_STEPS


def test_measuring_ends_soon_where_compiling_takes_long(
    records_folder, small_config_file, tmp_path, monkeypatch
):
    plan = plan_of(records_folder, small_config_file, tmp_path, num_train_steps=9)
    rates, clock, calls = {plan.data[0].records.max_seq_length: 1e3}, [0.0], []

    class Slow:
        model = None

        def train_steps(self, iterator, steps):
            clock[0] += 90.0 if not calls else 1.0
            calls.append(steps)

    expected = pretraining_run.Measured(rates, 1.0, weights=1)
    monkeypatch.setattr(pretraining_run, "make_trainer", lambda *_: Slow())
    monkeypatch.setattr(pretraining_run, "_expected", lambda *_: expected)
    monkeypatch.setattr(pretraining_run.time, "monotonic", lambda: clock[0])
    found = pretraining_run.measure(plan, TensorFlow(), seconds=24.0)
    assert calls == [1, 1]
    assert found.rates == dict.fromkeys(rates, 1.0) and found.seconds_to_compile == 90.0


@pytest.mark.parametrize(
    ("rate", "spent", "told"),
    [(1.0, 50.0, "about 5 steps, .*; give at least 2min"), (1e30, 0.0, "steps; give less")],
)
def test_a_budget_that_is_refused_tells_the_least(
    records_folder, small_config_file, tmp_path, rate, spent, told
):
    plan = plan_of(records_folder, small_config_file, tmp_path, budget="60s")
    length = plan.data[0].records.max_seq_length
    measured = pretraining_run.Measured({length: rate}, seconds_to_compile=1.0, weights=1)
    with pytest.raises(InputError, match=f"--budget.*{told}"):
        pretraining_run._steps_of_budget(plan, measured, spent)


def test_no_length_is_refused(records_folder, small_config_file):
    given = [f"--data={records_folder}", f"--model={small_config_file}", "--model_dir=m"]
    with pytest.raises(InputError, match=r"--num_train_steps: is missing"):
        pretrain_main([*given, "--train_batch_size=8"])


def test_epochs_are_passes_over_the_records(records_folder, small_config_file, tmp_path):
    found = flags(records_folder, small_config_file, tmp_path / "m", num_train_epochs=2)
    job = PretrainingJob.by_recipe(**_parse(found)[1])
    job = pretraining_run.with_steps_of_budget(job, None, 0.0)
    instances = open_records(str(records_folder), "--data").instances
    assert job.optimizer.num_train_steps == round(2 * instances / 8)
    with pytest.raises(InputError, match="--num_train_steps=5: --num_train_epochs decides it"):
        pretrain_main([*found, "--num_train_steps=5"])


@pytest.mark.slow
def test_a_time_is_a_number_of_steps_that_the_training_keeps(
    records_folder, small_config_file, tmp_path, monkeypatch, measured, capsys
):
    arguments = flags(records_folder, small_config_file, tmp_path / "m", budget="25s", eval_steps=9)
    arguments.remove("--eval_steps=9")
    held_out = json.loads((records_folder / "eval" / "info.json").read_text())
    batches = -(-sum(file["instances"] for file in held_out["files"]) // 8)

    def stop(*_):
        raise InputError("stopped")

    with monkeypatch.context() as patched:
        patched.setattr(pretraining_run.model_folders, "save_weights", stop)
        with pytest.raises(InputError, match="stopped"):
            pretrain_main(arguments)
    settings = json.loads((tmp_path / "m" / "training.json").read_text())
    steps = settings["optimizer"]["num_train_steps"]
    assert settings["budget_seconds"] == 25
    # 25 s less the evaluation at the end, the compilation of both, and some time of this test.
    most = (25 - 2 * 3 - batches / 30) * 10
    assert 0.5 * most < steps <= most
    pretrain_main(arguments)  # continues with the same number, without measuring
    assert len(measured) == 1
    assert "finished" in capsys.readouterr().out
    pretrain_main(arguments)
    assert "already finished" in capsys.readouterr().out
    longer = [each for each in arguments if "budget" not in each] + ["--budget=60s"]
    with pytest.raises(InputError, match=rf"--init={tmp_path}/m continues it"):
        pretrain_main(longer)
    assert len(measured) == 1
    plain = [each for each in arguments if "budget" not in each]
    for others in (["--num_train_steps=7"], ["--budget=60s"]):
        with pytest.raises(
            InputError, match=r"already holds .* of another job \(budget_seconds there 25"
        ):
            pretrain_main([*plain, *others])


@pytest.mark.slow
def test_a_dry_run_measures_and_writes_nothing(
    records_folder, small_config_file, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(pretraining_run, "SECONDS_MEASURED", 0.3)
    monkeypatch.setattr(cost, "capacity_for", lambda *_: None)
    for length in ({"num_train_steps": 1000}, {"budget": "10min"}):
        length |= {"eval_steps": 10**6}
        arguments = flags(records_folder, small_config_file, tmp_path / "m", **length)
        pretrain_main([*arguments, "--dry_run"])
        printed = capsys.readouterr().out
        found = dict(line.split(": ", 1) for line in printed.splitlines() if ": " in line)
        assert not (tmp_path / "m").exists()
        steps = int(re.search(r"^([\d,]+) steps on ", printed, re.M)[1].replace(",", ""))
        flops = shape_flops(small_config_file, records_folder)
        assert float(found["operations"]) == pytest.approx(steps * flops, rel=0.01)
        rate = float(re.match(r"([\d.e+,]+) steps/s", found["rate"])[1].replace(",", ""))
        if "budget" in length:
            assert 0.5 * 600 * rate < steps < 600 * rate
        else:
            assert steps == 1000


def test_a_folder_of_something_else_is_refused_without_a_measurement(
    records_folder, small_config_file, measured
):
    """Measuring takes a minute."""
    with pytest.raises(InputError, match="--model_dir=.*already holds the finished result of ano"):
        pretrain_main(flags(records_folder, small_config_file, records_folder, budget="60s"))
    assert not measured
