"""A path that a user gives is a name: no output of a command is taken for a pattern."""

import json
import random

import pytest

from beambert.cli import COMMANDS, run
from beambert.errors import InputError

OTHERS = ("other", "o v", "othxr")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working folder whose name is a pattern, too, with files and folders of others in it."""
    folder = tmp_path / "p [v2]"
    folder.mkdir()
    for name in OTHERS:
        (folder / name).mkdir()
        (folder / name / "theirs").write_text("kept")
        (folder / f"{name}.txt").write_text("kept")
    draw = random.Random(1)
    rows = [{"text": " ".join(draw.choices("abcdefgh", k=30)) + "."} for _ in range(40)]
    (folder / "in[1].jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "in1.jsonl").write_text("not JSON\n")
    monkeypatch.chdir(folder)
    return folder


def test_a_vocabulary_records_and_their_verification(project, capsys):
    name = "o*"
    vocab = ["vocab", "--input=in[1].jsonl", "--vocab_size=150"]
    assert run([*vocab, f"--output={name}.txt"]) == 0, capsys.readouterr().err
    data = ["data", "--input=in[1].jsonl", f"--vocab_file={name}.txt", "--num_shards=1"]
    for _ in range(2):
        assert run([*data, f"--output={name}"]) == 0, capsys.readouterr().err
    assert "nothing to do" in capsys.readouterr().out
    assert run(["verify", name, f"--output={name}-verified"]) == 0, capsys.readouterr().out
    assert run([*data, f"--since={name}", f"--output={name}-new"]) == 0
    assert "nothing new" in capsys.readouterr().out
    assert not [path for path in project.rglob("_*") if path.name != "_SUCCESS"]
    for other in OTHERS:
        assert (project / other / "theirs").read_text() == "kept"
        assert (project / f"{other}.txt").read_text() == "kept"


# Outputs of commands: those that may hold patterns are tested here, in `test_predict` and in
# `test_evaluate`; a file of answers is tested below; the others are claimed, see `folders`.
WRITTEN = ("output", "model_dir")
FOLDERS = {"data", "predict", "evaluate", "verify", "embed", "index"}
FOLDERS |= {"train", "pretrain", "finetune", "glue", "export", "demo", "vocab"}
OF_FILES = {"search": "hits", "score": "scores", "fill": "answers", "judge": "measures"}


@pytest.mark.parametrize("command", OF_FILES)
def test_a_file_of_answers_replaces_nothing(command, tmp_path, monkeypatch):
    """Not its own input, a model's weights, a folder or a link."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input.txt").write_text("a [MASK]\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("gone")
    flags = {"search": ["--index=data", "--by=words"], "judge": ["--index=data", "--by=words"]}
    given = flags.get(command, ["--model=data"])
    given = [*given, "--data_dir=data"] if command == "judge" else [*given, "--input=input.txt"]
    main = __import__(COMMANDS[command].module, fromlist=["main"]).main
    for output in ("input.txt", "data", "link"):
        with pytest.raises(InputError, match=f"^--output={output}: already exists"):
            main([*given, f"--output={output}"])
    assert (tmp_path / "input.txt").read_text() == "a [MASK]\n"


def test_every_output_is_claimed_or_new():
    found = {
        name
        for name, command in COMMANDS.items()
        if any(flag in WRITTEN for flag in command.build_parser().flags)
    }
    assert found == FOLDERS | OF_FILES.keys()
