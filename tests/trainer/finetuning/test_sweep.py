"""Sweeps: every combination once, resumable, the best kept."""

import json

import pytest

from beambert.errors import InputError
from beambert.folders import folders_held
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.finetuning import sweep
from beambert.trainer.finetuning.sweep import Grid, table

TEXTS = [("the river", "good"), ("the war", "bad"), ("a city", "good"), ("he died", "bad")]


@pytest.fixture
def task_folder(tmp_path):
    folder = tmp_path / "task"
    folder.mkdir()
    for split, times in (("train", 8), ("dev", 2)):
        rows = [f"{text}\t{label}" for text, label in TEXTS * times]
        (folder / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return folder


@pytest.fixture
def run(task_folder, encoder_folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sweep.GRIDS, "small", Grid((1e-9, 3e-3), (8,), (4,)))

    def run_(*more):
        finetune_main(
            [
                *("--task=classification", f"--data_dir={task_folder}", f"--init={encoder_folder}"),
                *(f"--model_dir={tmp_path / 'sweep'}", "--sweep=small", "--num_seeds=2", *more),
            ]
        )
        return json.loads((tmp_path / "sweep" / "sweep.json").read_text())["runs"]

    return run_


@pytest.mark.release
def test_every_combination_once_and_the_best_is_kept(run, tmp_path, capsys, monkeypatch):
    cut = []
    finetune = sweep.finetune_in_process

    def killed(job, *devices):
        if len(cut) == 2:
            raise KeyboardInterrupt
        cut.append(job)
        return finetune(job, *devices)

    monkeypatch.setattr(sweep, "finetune_in_process", killed)
    with pytest.raises(KeyboardInterrupt):
        run()
    monkeypatch.setattr(sweep, "finetune_in_process", finetune)
    rows = run()
    assert "4 runs, 2 of them done" in capsys.readouterr().out
    assert {(row["learning_rate"], row["random_seed"]) for row in rows} == {
        (rate, 12345 + seed) for rate in (1e-9, 3e-3) for seed in range(2)
    }
    assert len(rows) == 4
    best = json.loads((tmp_path / "sweep" / "best" / "training.json").read_text())
    assert best["optimizer"]["learning_rate"] == 3e-3
    results = json.loads((tmp_path / "sweep" / "best" / "results.json").read_text())
    assert results["accuracy"] == max(row["results"]["accuracy"] for row in rows)
    assert not list((tmp_path / "sweep" / "runs").iterdir())
    run()
    assert "4 runs, 4 of them done" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"--model_dir=.* holds the sweep of another job \(--wei"):
        run("--weight_decay_rate=0.1")


def test_a_folder_is_filled_by_one_sweep_at_a_time(
    task_folder, small_config_file, vocabulary, tmp_path
):
    (tmp_path / "vocab.txt").write_bytes(vocabulary.serialize())
    (tmp_path / "sweep").mkdir()
    flags = [
        *("--task=classification", f"--data_dir={task_folder}", "--init=random", "--sweep=small"),
        *(f"--model={small_config_file}", f"--vocab_file={tmp_path / 'vocab.txt'}"),
        f"--model_dir={tmp_path / 'sweep'}",
    ]
    busy = pytest.raises(InputError, match="--model_dir=.*sweep: process .* is at work there")
    with folders_held([str(tmp_path / "sweep")], "--model_dir"), busy:
        finetune_main(flags)


def test_the_table_has_means_and_spread_the_best_first():
    def row(rate, seed, accuracy):
        point = {"learning_rate": rate, "train_batch_size": 8, "num_train_epochs": 2.0}
        return point | {"random_seed": seed, "results": {"accuracy": accuracy}}

    lines = table(
        [row(1e-5, 1, 0.5), row(1e-5, 2, 0.7), row(2e-5, 1, 0.9)], "accuracy"
    ).splitlines()
    assert lines[2] == "| 2e-05 | 8 | 2 | 1 | 0.9000 |  | 0.9000 |"
    assert lines[3] == "| 1e-05 | 8 | 2 | 2 | 0.6000 | 0.1414 | 0.7000 |"
