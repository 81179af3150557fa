"""What a step would refuse is refused by the plan, before anything is spent."""

import pathlib
import re

import pytest
from support import growing_corpus as corpus
from support.stand_in_commands import Commands

from beambert.deploy.retraining import command as retrain
from beambert.deploy.retraining import planning, workspace
from beambert.deploy.retraining.runs import command, next_run
from beambert.errors import InputError

# what to replace in the configuration, by what -> what the message says
BAD = {
    ("max_seq_length = 32", "max_seq_length = '32,32'"): "data: --max_seq_length",
    ("train_batch_size = 8\n[pretrain.first]", "train_batch_size = 0\n[pretrain.first]"): (
        "pretrain: --train_batch_size=0"
    ),
    ("learning_rate = 0.003", "learning_rate = -1"): "finetune: --learning_rate=-1.0",
    ("num_train_epochs = 6", "sweep = 'paper'"): "finetune.sweep: makes several models",
    ("[evaluate]", "[evaluate]\nexit_status = true"): "evaluate.exit_status: makes an error of",
    ("[pretrain]\n", "[pretrain]\ndry_run = true\n"): "pretrain.dry_run: trains no encoder",
    ("[pretrain]\n", "[pretrain]\ninit = 'e'\n"): "pretrain.init: ",
    ("[pretrain.further]", "[pretrain.further]\ninit = 'e'"): "pretrain.init: further runs contin",
    ("vocab_file =", "least = 7\nvocab_file ="): "evaluate: --threshold=7",
    ("[data]\n", "[data]\nmax_num_worker = 5\n"): "data: --max_num_worker=5: no such flag",
}


@pytest.mark.parametrize(("old", "new"), BAD)
def test_values_that_a_step_refuses(tmp_path, monkeypatch, old, new):
    commands = Commands()
    monkeypatch.setattr(retrain, "_run", commands)
    corpus.deliver(tmp_path, 1)
    path = corpus.write_config(tmp_path)
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    for flags in ([], ["--dry_run"], ["--step=plan"]):
        with pytest.raises(InputError, match=f"^--config: {BAD[old, new]}"):
            retrain.main([f"--config={path}", *flags])
    assert not commands.ran and not list(pathlib.Path(tmp_path, "workspace").glob("runs/*"))


def test_a_first_encoder_is_that_of_the_first_run_only(tmp_path):
    path = corpus.write_config(tmp_path)
    model = re.search(r"model = .*\n", path.read_text())[0]
    path.write_text(path.read_text().replace(model, "init = 'published'\n"))
    config = workspace.read_config(str(path))
    planning.check_values(config)
    first, further = (
        [word for word in command("encoder", config, run) if word.startswith("--init=")]
        for run in (next_run(config, (), 1, 1), next_run(config, ("w/runs/000001",), 2, 1))
    )
    assert first == ["--init=published"] and further == ["--init=w/runs/000001/encoder"]


def test_a_dry_run_where_no_bucket_is_mounted(tmp_path, capsys):
    corpus.deliver(tmp_path, 1)
    path = corpus.write_config(tmp_path)
    path.write_text(path.read_text().replace(f"{tmp_path}/vocab.txt", "/gcs/a-bucket/vocab.txt"))
    retrain.main([f"--config={path}", "--dry_run"])
    assert "--vocab_file=/gcs/a-bucket/vocab.txt" in capsys.readouterr().out


def test_an_outcome_that_cannot_be_written(tmp_path):
    """It is said, and the plan can be made again."""
    corpus.deliver(tmp_path, 1)
    path = corpus.write_config(tmp_path)
    file = tmp_path / "a file"
    file.write_text("")
    plan = [f"--config={path}", "--step=plan"]
    with pytest.raises(
        InputError, match=f"^--outcome_file={file}/outcome: cannot be written .*; n"
    ):
        retrain.main([*plan, f"--outcome_file={file}/outcome"])
    retrain.main([*plan, f"--outcome_file={tmp_path}/outcome"])
    assert (tmp_path / "outcome").read_text() == "new"
