"""Two commands that would fill one folder, and a corrected command after one that failed."""

import collections

import pyarrow
import pyarrow.parquet
import pytest
from support import data_command
from support.data_command import data, refused, temporary

from beambert import locks
from beambert.pipelines.pretraining import shards

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


@pytest.mark.slow
@pytest.mark.parametrize("lengths", ["32", "32,64"])
def test_a_job_that_failed_before_it_wrote_keeps_no_other_out(
    capsys, vocab_file, corpus, tmp_path, lengths
):
    """The corrected flag makes it another job."""
    output, file = tmp_path / "records", tmp_path / "text.parquet"
    texts = ["\n".join(document) for document in corpus]
    pyarrow.parquet.write_table(pyarrow.table({"body": texts}), file)
    flags = [f"--input={file}", "--eval_fraction=0.2", f"--max_seq_length={lengths}"]
    flags += ["--max_predictions_per_seq=" + ",".join("5" for _ in lengths.split(","))]
    refused(data(capsys, vocab_file, output, *flags), "--text_column=text: no such column")
    assert not output.exists()
    status, _, error = data(capsys, vocab_file, output, *flags, "--text_column=body")
    assert (status, error) == (0, "")


def test_a_job_that_was_killed_before_it_wrote_keeps_no_other_out(
    capsys, vocab_file, corpus_file, tmp_path
):
    output = tmp_path / "records"
    for folder in (output, output / "eval"):
        folder.mkdir()
        (folder / "_UNFINISHED").write_text('{"parameters": "of another job"}')
    flags = [f"--input={corpus_file}", "--eval_fraction=0.2"]
    assert data(capsys, vocab_file, output, *flags)[0] == 0


def test_a_shard_looks_at_the_claims_of_its_own_folders(
    capsys, monkeypatch, vocab_file, corpus_file, tmp_path
):
    """Those of folders that it writes nothing to would be requests for nothing."""
    seen, check = [], shards.check_claimed
    monkeypatch.setattr(
        shards, "check_claimed", lambda *given: seen.append(given[0]) or check(*given)
    )
    output = tmp_path / "records"
    flags = [f"--input={corpus_file}", "--num_shards=4", "--eval_fraction=0.3"]
    flags += ["--max_seq_length=32,64", "--max_predictions_per_seq=5,5"]
    assert data(capsys, vocab_file, output, *flags)[0] == 0
    training = {f"{output}/{length}": 4 for length in (32, 64)}
    held_out = {f"{folder}/eval": 2 for folder in training}
    assert collections.Counter(seen) == training | held_out
