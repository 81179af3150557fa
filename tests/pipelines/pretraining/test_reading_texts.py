"""The data and vocab commands on texts that are not UTF-8, that have remains, and that change."""

import json

import pytest
from support import data_command
from support.data_command import data, info, refused

from beambert.cli import run_main
from beambert.pipelines import create_vocabulary
from beambert.pipelines.pretraining import tokenizing

vocab_file = data_command.vocab_file

NEWS = (
    "The company said that it was to sell the plant for £5, and the shares of it rose.\n\n"
    "It is the end of the work &amp; of the café, said the owner to his staff on the day.\n"
)


@pytest.mark.slow
def test_declared_encodings_are_counted(capsys, tmp_path, vocab_file):
    texts = tmp_path / "texts"
    texts.mkdir()
    for number in range(6):
        (texts / f"{number}.txt").write_bytes((NEWS + f"It is _{number}_.\n").encode("cp1252"))
    (texts / "7.txt").write_text(NEWS, "utf-8")
    files, declared = f"--input={texts}/*", "--encoding=utf-8,windows-1252"
    result = data(capsys, vocab_file, tmp_path / "utf8", files)
    refused(result, "0.txt: byte 0xa3", "6 of 7", "4.txt and 1 more", declared)
    status, out, err = data(capsys, vocab_file, tmp_path / "out", files, declared)
    assert (status, err) == (0, "")
    assert "; cleaned: emphasis 6)" in out
    made = info(tmp_path / "out")
    assert made["counts"]["documents"]["encodings"] == {"cp1252": 6, "utf-8": 1}
    assert made["counts"]["documents"]["cleaned"] == {"emphasis": 6}
    assert made["parameters"]["encoding"] == "utf-8,windows-1252"
    refused(data(capsys, vocab_file, tmp_path / "x", files, "--encoding=ut8"), "--encoding=ut8")
    output = tmp_path / "vocab.txt"
    flags = [files, declared, f"--output={output}", "--vocab_size=120"]
    assert run_main("vocab", create_vocabulary.main, flags) == 0
    about = json.loads((tmp_path / "vocab.txt.json").read_text())
    assert about["counts"]["encodings"] == {"cp1252": 6, "utf-8": 1}
    assert "£" in output.read_text()


def test_a_file_that_changes_is_refused(capsys, tmp_path, vocab_file, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text(NEWS)
    read = tokenizing.read_documents

    def read_and_empty(*given):
        yield from read(*given)
        path.write_text("")

    monkeypatch.setattr(tokenizing, "read_documents", read_and_empty)
    result = data(capsys, vocab_file, tmp_path / "out", f"--input={path}")
    refused(result, f"{path}: was changed while it was read (has 0 bytes now and had")
    assert not (tmp_path / "out" / "_SUCCESS").exists()
