"""The data command gives the same bytes however it is run."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from unittest import mock

import pytest
from support import data_command, forked
from support.data_command import (
    SMALL,
    TWO_PROCESSES,
    body,
    data,
    hashes,
    info,
    run_process,
    temporary,
    wikiextractor,
)
from support.sample_text import make_document

corpus, corpus_file = data_command.corpus, data_command.corpus_file
records, vocab_file = data_command.records, data_command.vocab_file


class TestSameBytes:
    """SHA-256 of every shard against the folder that the true command line made."""

    flags = ("--num_shards=3", "--eval_fraction=0.25")

    def test_several_files_in_another_order(
        self, capsys, tmp_path, records, corpus, vocab_file, monkeypatch
    ):
        order = random.Random(1).sample(corpus, len(corpus))
        (tmp_path / "a.txt").write_text(wikiextractor(order[:10]))
        (tmp_path / "b.jsonl").write_text(
            "".join(json.dumps({"text": body(d)}) + "\n" for d in order[10:30])
        )
        with gzip.open(tmp_path / "c.gz", "wt") as file:
            file.write(wikiextractor(order[30:]))
        # Batches of a few documents too.
        monkeypatch.setattr("beambert.pipelines.pretraining.tokenizing.BATCH_CHARACTERS", 1000)
        output = tmp_path / "out"
        inputs = ["--input", tmp_path / "c*", tmp_path / "*.txt", tmp_path / "b.jsonl"]
        status, _, err = data(capsys, vocab_file, output, *inputs, *self.flags)
        assert (status, err) == (0, "")
        assert hashes(output) == hashes(records)
        assert hashes(output / "eval") == hashes(records / "eval")
        assert len(info(output)["inputs"]) == 3

    def test_parts_of_files_and_many_spills(
        self, capsys, tmp_path, records, corpus, vocab_file, monkeypatch
    ):
        """A hundred parts, batches of a document or two, and several spills a bundle."""
        from beambert.pipelines.corpus import reading
        from beambert.pipelines.corpus import transforms as corpus_transforms
        from beambert.pipelines.pretraining import layout

        monkeypatch.setattr("beambert.pipelines.corpus.base.PART_BYTES", 300)
        monkeypatch.setattr("beambert.pipelines.pretraining.tokenizing.BATCH_CHARACTERS", 400)
        monkeypatch.setitem(layout.TOKENS_AT_A_TIME, layout.FILES, 200)
        read_part = mock.Mock(wraps=reading.read_part)
        write_spill = mock.Mock(wraps=layout.write_spill)
        monkeypatch.setattr(corpus_transforms, "read_part", read_part)
        monkeypatch.setattr(layout, "write_spill", write_spill)
        text = wikiextractor(corpus).encode()
        path, output = tmp_path / "wiki", tmp_path / "out"
        path.write_bytes(text)
        status, _, err = data(capsys, vocab_file, output, f"--input={path}", *self.flags)
        assert (status, err) == (0, "")
        assert read_part.call_count == pytest.approx(len(text) / 300, abs=1)
        assert write_spill.call_count > 10
        assert hashes(output) == hashes(records)
        assert hashes(output / "eval") == hashes(records / "eval")
        assert not temporary(output)

    @pytest.mark.slow
    def test_killed_and_started_again(self, tmp_path, corpus, vocab_file):
        """SIGKILL in the middle: the same command gives what an undisturbed run gives."""
        (tmp_path / "wiki").write_text(wikiextractor(corpus * 40))
        flags = [f"--vocab_file={vocab_file}", f"--input={tmp_path}/wiki", *SMALL]
        flags += ["--num_shards=12", "--eval_fraction=0.25", "--dupe_factor=10"]
        whole, killed = tmp_path / "whole", tmp_path / "killed"
        assert run_process([*flags, f"--output={whole}"]).returncode == 0
        command = [sys.executable, "-m", "beambert", "data", *flags, f"--output={killed}"]
        with forked.Popen(
            command,
            cwd=data_command.ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            deadline = time.monotonic() + 120
            while not list(killed.glob("part-*")) and time.monotonic() < deadline:
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGKILL)
        assert (killed / "_UNFINISHED").exists() and not (killed / "_SUCCESS").exists()
        assert not (killed / "eval" / "_SUCCESS").exists()
        assert temporary(killed)  # nobody could tidy up
        made = len(list(killed.rglob("part-*")))
        assert 0 < made < 15
        assert run_process([*flags, f"--output={killed}"]).returncode == 0
        assert hashes(killed) == hashes(whole)
        assert hashes(killed / "eval") == hashes(whole / "eval")
        assert not temporary(killed)
        for path in whole.rglob("part-*"):
            assert (killed / path.relative_to(whole)).read_bytes() == path.read_bytes()

    @pytest.mark.slow
    def test_two_processes(self, tmp_path, records, corpus, vocab_file):
        for i in range(4):
            (tmp_path / f"part{i}").write_text(wikiextractor(corpus[i::4]))
        flags = [f"--vocab_file={vocab_file}", f"--input={tmp_path}/part*", *SMALL, *self.flags]
        flags += TWO_PROCESSES
        run = run_process([f"--output={tmp_path}/out", *flags])
        assert (run.returncode, run.stderr) == (0, "")
        assert hashes(tmp_path / "out") == hashes(records)

    @pytest.mark.slow
    def test_a_finished_part_beside_an_unfinished_one(
        self, capsys, tmp_path, corpus_file, vocab_file
    ):
        """Both are made again, and neither claims to be complete before it is."""
        output = tmp_path / "out"
        flags = [f"--input={corpus_file}", *self.flags]
        assert data(capsys, vocab_file, output, *flags)[0] == 0
        whole = hashes(output)
        (output / "_SUCCESS").rename(output / "_UNFINISHED")
        (output / "part-00000-of-00003.tfrecord").unlink()
        assert data(capsys, vocab_file, output, *flags)[0] == 0
        assert hashes(output) == whole
        for folder in (output, output / "eval"):
            assert (folder / "_SUCCESS").exists() and not (folder / "_UNFINISHED").exists()

    def test_other_seed_differs_and_the_split_stays(
        self, capsys, tmp_path, records, corpus, vocab_file
    ):
        """Neither the seed nor more documents move one between training and held-out."""
        more = make_document(random.Random(9), 4)
        (tmp_path / "wiki").write_text(wikiextractor([more, *corpus]))
        output = tmp_path / "out"
        flags = [f"--input={tmp_path}/wiki", *self.flags, "--random_seed=7"]
        assert data(capsys, vocab_file, output, *flags)[0] == 0
        assert not set(hashes(output).values()) & set(hashes(records).values())
        old, new = (
            (info(f)["counts"]["tokens"], info(f / "eval")["counts"]["tokens"])
            for f in (records, output)
        )
        # One of the two parts has grown by the one document, the other has the same tokens.
        assert (old[0] == new[0]) != (old[1] == new[1])
        grown = (
            info(output)["counts"]["documents"]["used"]
            + info(output / "eval")["counts"]["documents"]["used"]
        )
        assert grown == 81
