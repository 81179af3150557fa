"""The data and vocab commands on texts that are not UTF-8, that have remains, and that change."""

import json

import pytest
from support import data_command
from support.data_command import data, info, refused

from beambert.console import run_main
from beambert.pipelines import create_vocabulary
from beambert.pipelines.pretraining_data import transforms

vocab_file = data_command.vocab_file

NEWS = (
    "The company said that it was to sell the plant for £5, and the shares of it rose.\n\n"
    "It is the end of the work &amp; of the café, said the owner to his staff on the day.\n"
)


@pytest.mark.slow
def test_encodings_are_told_and_counted(capsys, tmp_path, vocab_file):
    texts = tmp_path / "texts"
    texts.mkdir()
    for number in range(6):
        (texts / f"{number}.txt").write_bytes((NEWS + f"It is _{number}_.\n").encode("cp1252"))
    status, out, err = data(capsys, vocab_file, tmp_path / "out", f"--input={texts}/*")
    assert (status, err) == (0, "")
    assert f"assumed windows-1252 for 6 files, such as {texts}/0.txt: “…" in out
    assert "; cleaned: emphasis 6)" in out
    made = info(tmp_path / "out")
    assert made["counts"]["documents"]["encodings"] == {"cp1252": 6}
    assert made["counts"]["documents"]["cleaned"] == {"emphasis": 6}
    assert made["parameters"]["encoding"] == "auto"
    assert made["parameters"]["assumed_encodings"] == {str(texts): "cp1252", "*": "cp1252"}
    # The user's word counts more, also where it is wrong.
    flags = [f"--input={texts}/*", "--encoding=utf-8"]
    refused(data(capsys, vocab_file, tmp_path / "utf8", *flags), "0.txt: byte 0xa3", "6 of 6")
    output = tmp_path / "vocab.txt"
    flags = [f"--input={texts}/*", f"--output={output}", "--vocab_size=120"]
    assert run_main("vocab", create_vocabulary.main, flags) == 0
    assert "assumed windows-1252 for 6 files" in capsys.readouterr().out
    about = json.loads((tmp_path / "vocab.txt.json").read_text())
    assert about["counts"]["encodings"] == {"cp1252": 6}
    assert "£" in output.read_text()


def test_a_file_that_changes_is_refused(capsys, tmp_path, vocab_file, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text(NEWS)
    read = transforms.read_documents

    def read_and_empty(*given):
        yield from read(*given)
        path.write_text("")

    monkeypatch.setattr(transforms, "read_documents", read_and_empty)
    result = data(capsys, vocab_file, tmp_path / "out", f"--input={path}")
    refused(result, f"{path}: was changed while it was read (has 0 bytes now and had")
    assert not (tmp_path / "out" / "_SUCCESS").exists()
