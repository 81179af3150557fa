"""The data command refuses what it can't use: one sentence, status 2, nothing spoiled."""

import errno
import gzip

import pytest
from support.data_command import data, info, refused, temporary, wikiextractor

from beambert import PretrainingDataJob, create_pretraining_data, folders, io
from beambert.errors import InputError
from beambert.pipelines.pretraining import tokenizing
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS


class TestRejects:
    @pytest.fixture
    def broken(self, tmp_path, corpus):
        path = tmp_path / "broken"
        text = wikiextractor(corpus[:9]).encode()
        path.write_bytes(text + b'<doc id="9" title="y">\nfine\ncaf\xe9 bad\n</doc>\n')
        return path

    @pytest.mark.slow
    def test_undecodable_bytes(self, capsys, tmp_path, broken, vocab_file):
        output = tmp_path / "out"
        line = broken.read_bytes().split(b"\xe9")[0].count(b"\n") + 1
        result = data(capsys, vocab_file, output, f"--input={broken}")
        refused(result, broken, f"byte 0xe9 on line {line}", "--max_reject_fraction", "1 of 10")
        assert not (tmp_path / "out-rejects.jsonl").exists()  # The message has all.
        assert not (output / "_SUCCESS").exists()
        # The same command with leave to lose that one goes on in the same folder.
        flags = [f"--input={broken}", "--max_reject_fraction=0.1"]
        status, out, err = data(capsys, vocab_file, output, *flags)
        assert (status, err) == (0, "")
        assert "(1 dropped: 1 unreadable (not_utf8), see rejects.jsonl)" in out
        counts = info(output)["counts"]["documents"]
        assert counts["rejected"] == {"not_utf8": 1}
        assert (counts["read"], counts["used"], counts["in_other_split"]) == (10, 9, 0)
        assert (output / "rejects.jsonl").exists()
        # What the failed job left beside the folder tells nothing about the records in it.
        assert not (tmp_path / "out-rejects.jsonl").exists()

    def test_compressed_file_that_is_cut_off(self, capsys, tmp_path, corpus, vocab_file):
        """Two streams end to end, as parallel compressors and multistream dumps have them."""
        path, output = tmp_path / "wiki.gz", tmp_path / "out"
        path.write_bytes((2 * gzip.compress(wikiextractor(corpus).encode()))[:-20])
        refused(data(capsys, vocab_file, output, f"--input={path}"), path, "cut off")


class TestBadInput:
    """Each gives one sentence, status 2, and leaves what was there."""

    def test_empty_corpus(self, capsys, tmp_path, vocab_file):
        (tmp_path / "empty.txt").write_bytes(b"\n \n\n")
        flags = [f"--input={tmp_path}/empty.txt"]
        refused(data(capsys, vocab_file, tmp_path / "out", *flags), "--input: no document")
        assert not (tmp_path / "out" / "_SUCCESS").exists()

    def test_no_files(self, capsys, tmp_path, vocab_file):
        refused(data(capsys, vocab_file, tmp_path / "out"), "--input: missing", "--source")
        job = PretrainingDataJob(vocab_file=str(vocab_file), output=str(tmp_path / "out"))
        with pytest.raises(InputError, match="--input: missing"):
            create_pretraining_data(job)

    def test_somebody_elses_folder_with_brackets(self, capsys, tmp_path, corpus_file, vocab_file):
        """Characters that stand for others in a pattern hide nothing; nor do folders in it."""
        for name, inside in (("runs[1]", "thesis.tex"), ("runs", "folder/thesis.tex")):
            output = tmp_path / name
            (output / inside).parent.mkdir(parents=True)
            (output / inside).write_text("mine")
            result = data(capsys, vocab_file, output, f"--input={corpus_file}")
            refused(result, output, "something else")

    def test_nothing_temporary_is_left_when_a_folder_is_marked_as_finished(
        self, capsys, tmp_path, corpus_file, vocab_file, monkeypatch
    ):
        """A command that is killed after the mark is not run again."""
        left = []

        def finish(folder, job):
            left.append([path for path in temporary(output) if "lock" not in path])
            folders.finish_output(folder, job)

        output = tmp_path / "records"
        monkeypatch.setattr("beambert.pipelines.pretraining.graph.finish_output", finish)
        assert data(capsys, vocab_file, output, f"--input={corpus_file}", "--shuffle=files")[0] == 0
        assert left == [[]]

    def test_vocabulary(self, capsys, tmp_path, corpus_file):
        path = tmp_path / "vocab.txt"
        path.write_text("\n".join((*SPECIAL_TOKENS, "The", "House", "river")))
        result = data(capsys, path, tmp_path / "out", f"--input={corpus_file}")
        refused(result, path, "--do_lower_case=False")
        assert not (tmp_path / "out").exists()


def test_a_folder_holds_the_records_of_one_job(capsys, tmp_path, corpus_file, vocab_file):
    output, several = tmp_path / "out", ("--max_seq_length=32,64", "--max_predictions_per_seq=5,10")
    flags = (capsys, vocab_file, output, f"--input={corpus_file}")
    assert data(*flags, *several)[0] == 0
    before = sorted(output.rglob("*"))
    refused(data(*flags), f"--output={output}", "something else")
    other = data(*flags, "--max_seq_length=32,48", several[1])
    refused(other, f"--output={output}", "something else")
    refused(data(*flags, *several, "--dupe_factor=3"), output, "dupe_factor there 2, here 3")
    assert sorted(output.rglob("*")) == before


class TestNothingIsLeftBehind:
    """Temporary files are gone after a failure, wherever it was."""

    def full(self, monkeypatch, is_refused):
        create = io._Local.create

        def create_or_not(system, path, *rest):
            if is_refused(path):
                raise OSError(errno.ENOSPC, "No space left on device")
            return create(system, path, *rest)

        monkeypatch.setattr(io._Local, "create", create_or_not)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["_tmp-documents-", "_SUCCESS"])
    def test_full_disk(self, capsys, tmp_path, corpus_file, corpus, vocab_file, monkeypatch, name):
        output = tmp_path / "out"
        flags = [f"--input={corpus_file}", "--num_shards=3", "--eval_fraction=0.25"]
        with monkeypatch.context() as patch:
            self.full(patch, lambda path: name in path)
            result = data(capsys, vocab_file, output, *flags)
        refused(result, output, "No space left on device")
        assert not temporary(output) and not list(output.rglob("_SUCCESS"))
        # There is space again: the same command goes on.
        assert data(capsys, vocab_file, output, *flags)[0] == 0
        counts = info(output)["counts"]["documents"]
        assert counts["read"] == len(corpus) and not temporary(output)

    @pytest.mark.parametrize("name", ["out-rejects.jsonl", "out-overlaps.jsonl"])
    def test_a_list_next_to_the_output_is_its_own(
        self, capsys, tmp_path, corpus_file, vocab_file, name
    ):
        (tmp_path / name).write_text("mine")
        result = data(capsys, vocab_file, tmp_path / "out", f"--input={corpus_file}")
        refused(result, tmp_path / name, "not made by this command")
        assert (tmp_path / name).read_text() == "mine"

    def test_other_flags_after_a_failure(self, capsys, tmp_path, corpus_file, vocab_file):
        """A failed job doesn't block its own output."""
        output = tmp_path / "out"
        flags = [
            f"--input={corpus_file}",
            "--max_seq_length=32,64",
            "--max_predictions_per_seq=5,5",
        ]
        failed = data(capsys, vocab_file, output, *flags, "--eval_fraction=0.000001")
        refused(failed, "--eval_fraction=1e-06", "held out 0 of")
        assert "delete" not in failed[2] and not list(tmp_path.rglob("out/*"))
        others = [f"--input={corpus_file}", "--dupe_factor=1"]
        assert data(capsys, vocab_file, output, *others)[0] == 0

    def test_without_locks_a_failure_deletes_nothing(
        self, capsys, tmp_path, corpus_file, vocab_file, monkeypatch
    ):
        """Another command may be at work in the folder, with the same names of files."""

        def refuse(*_):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr("fcntl.flock", refuse)
        output = tmp_path / "out"
        flags = [f"--input={corpus_file}", "--eval_fraction=0.000001"]
        status, _, err = data(capsys, vocab_file, output, *flags)
        assert status == 2 and "held out 0 of" in err
        assert f"{output}: stays as it is, since another command may be at work there; " in err
        assert list(output.glob("part-*")) and (output / "_UNFINISHED").exists()
        status, _, err = data(capsys, vocab_file, output, f"--input={corpus_file}")
        assert status == 2 and "already holds the unfinished work of another job" in err

    def test_files_of_others_stay(self, capsys, tmp_path, corpus_file, vocab_file, monkeypatch):
        """Whoever puts a file beside the shards while they are written finds it again."""
        output = tmp_path / "out"

        def noted(path):
            if "info.json" in path:
                (output / "notes.txt").write_text("mine")
            return "info.json" in path

        with monkeypatch.context() as patch:
            self.full(patch, noted)
            assert data(capsys, vocab_file, output, f"--input={corpus_file}")[0] == 2
        assert [path.name for path in output.iterdir()] == ["notes.txt"]


def test_a_folder_that_another_command_fills(capsys, vocab_file, corpus_file, tmp_path):
    output = tmp_path / "records"
    flags = [f"--input={corpus_file}", "--num_shards=1"]
    with folders.folders_held([str(output)], "--output"):
        result = data(capsys, vocab_file, output, *flags)
        refused(result, f"--output={output}: process ", "is at work there; wait for its end")
        assert [path.name for path in output.iterdir()] == ["_tmp-lock"]
    assert data(capsys, vocab_file, output, *flags)[0] == 0
    assert temporary(output) == []


def test_one_folder_of_several(capsys, vocab_file, corpus_file, tmp_path):
    """Here that of the held-out documents, which somebody else fills by itself."""
    output = tmp_path / "records"
    with folders.folders_held([str(output / "eval")], "--output"):
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


NEWS = (
    "The company said that it was to sell the plant for £5, and the shares of it rose.\n\n"
    "It is the end of the work &amp; of the café, said the owner to his staff on the day.\n"
)


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
