"""Two commands that would fill one folder, and a corrected command after one that failed."""

from support import data_command
from support.data_command import data, refused, temporary

from beambert import locks

corpus = data_command.corpus
vocab_file = data_command.vocab_file
corpus_file = data_command.corpus_file


def test_a_folder_that_another_command_fills(capsys, vocab_file, corpus_file, tmp_path):
    output = tmp_path / "records"
    flags = [f"--input={corpus_file}", "--num_shards=1"]
    with locks.folders_held([str(output)], "--output"):
        result = data(capsys, vocab_file, output, *flags)
        refused(result, f"--output={output}: process ", "is at work there; wait for its end")
        assert [path.name for path in output.iterdir()] == ["_tmp-lock"]
    assert data(capsys, vocab_file, output, *flags)[0] == 0
    assert temporary(output) == []


def test_one_folder_of_several(capsys, vocab_file, corpus_file, tmp_path):
    """Here that of the held-out documents, which somebody else fills by itself."""
    output = tmp_path / "records"
    with locks.folders_held([str(output / "eval")], "--output"):
        flags = [f"--input={corpus_file}", "--eval_fraction=0.2"]
        refused(data(capsys, vocab_file, output, *flags), "eval: process")


def test_a_job_that_was_killed_before_it_wrote_keeps_no_other_out(
    capsys, vocab_file, corpus_file, tmp_path
):
    output = tmp_path / "records"
    for folder in (output, output / "eval"):
        folder.mkdir()
        (folder / "_UNFINISHED").write_text('{"parameters": "of another job"}')
    flags = [f"--input={corpus_file}", "--eval_fraction=0.2"]
    assert data(capsys, vocab_file, output, *flags)[0] == 0
