"""The demo's steps: the text, then `beambert train` on it."""

from beambert.demo import run
from beambert.training import WORDS


def test_the_text_is_made_before_the_training(tmp_path, monkeypatch, capsys):
    made = []
    monkeypatch.setattr(run.corpus, "make_corpus", made.append)
    monkeypatch.setattr(run, "train", made.append)
    run.main([f"--output={tmp_path}", "--budget=5min"])
    assert made[0] == tmp_path
    job = made[1]
    assert job.input == (f"{tmp_path}/corpus/*.jsonl",) and job.task_data == f"{tmp_path}/task"
    assert job.task == "tagging"
    assert (job.goal, job.budget) == (WORDS, 300)
    assert f"beambert train '{tmp_path}/corpus/*.jsonl'" in capsys.readouterr().out
