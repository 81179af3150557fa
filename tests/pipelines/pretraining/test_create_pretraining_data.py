"""The data command end to end: what a folder holds, the same bytes always, kinds of pairs."""

import gzip
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from unittest import mock

import pytest
import tensorflow as tf
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
    verify,
    wikiextractor,
)
from support.sample_text import make_document

from beambert.pipelines.input_files import InputList
from beambert.pipelines.pretraining.graph import FinishFolders
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.pretraining.layout import Layout
from beambert.pipelines.pretraining.plan import Plan, Sources
from beambert.pipelines.pretraining.shards import FolderCounts, ShardCounts, add_shards
from beambert.pipelines.records.statistics import RecordStatistics


class TestFinishedFolder:
    def test_every_document_is_accounted_for(self, records, corpus):
        train, held_out = info(records), info(records / "eval")
        for split, other in ((train, held_out), (held_out, train)):
            counts = split["counts"]["documents"]
            assert counts["read"] == len(corpus)
            assert counts["dropped"] == {"empty": 2} and counts["rejected"] == {}
            assert counts["in_other_split"] == other["counts"]["documents"]["used"]
            assert counts["used"] + counts["in_other_split"] + 2 == counts["read"]
        assert 8 <= held_out["counts"]["documents"]["used"] <= 34  # a quarter of 80, 3 sigma
        sentences = train["counts"]["sentences"] + held_out["counts"]["sentences"]
        assert sentences == sum(map(len, corpus))

    def test_files_are_what_info_says(self, records, corpus_file, vocab_file):
        for folder in (records, records / "eval"):
            about = info(folder)
            on_disk = {path.name for path in folder.iterdir() if path.is_file()}
            named = {file["name"] for file in about["files"]}
            others = {"info.json", "vocab.txt", "schema.pbtxt", "statistics.json", "_SUCCESS"}
            assert on_disk == named | others
            assert (folder / "vocab.txt").read_bytes() == vocab_file.read_bytes()
            for file in about["files"]:
                content = (folder / file["name"]).read_bytes()
                assert len(content) == file["bytes"]
                assert hashlib.sha256(content).hexdigest() == file["sha256"]
                count = sum(1 for _ in tf.data.TFRecordDataset(str(folder / file["name"])))
                assert count == file["instances"]
            total = sum(file["instances"] for file in about["files"])
            assert total == about["counts"]["instances"] > 0
            (source,) = about["inputs"]
            assert source["path"] == str(corpus_file)
            assert source["bytes"] == corpus_file.stat().st_size

    def test_again_is_nothing_to_do(self, capsys, records, corpus_file, vocab_file):
        before = {path: path.stat().st_mtime_ns for path in records.rglob("*") if path.is_file()}
        flags = [f"--input={corpus_file}", "--num_shards=3", "--eval_fraction=0.25"]
        status, out, err = data(capsys, vocab_file, records, *flags)
        assert (status, err) == (0, "") and "already finished" in out
        after = {path: path.stat().st_mtime_ns for path in records.rglob("*") if path.is_file()}
        assert before == after


def test_held_out_documents_are_not_trained_on(capsys, tmp_path, vocabulary, vocab_file):
    """Each document repeats a word of its own, so that its records name it."""
    words = vocabulary.tokens[-40:]
    documents = [[f"{word} {word} {word} {word}."] * 6 for word in words]
    (tmp_path / "wiki").write_text(wikiextractor(documents))
    output = tmp_path / "out"
    flags = [f"--input={tmp_path}/wiki", "--eval_fraction=0.4", "--num_shards=2"]
    status, printed, *_ = data(capsys, vocab_file, output, *flags)
    assert status == 0
    used = [info(folder)["counts"]["documents"]["used"] for folder in (output, output / "eval")]
    assert (
        f"from {used[0]} of 40 documents (none dropped, {used[1]} begin in what is held out); "
        in printed
    )
    assert (
        f"from {used[1]} of 40 documents (none dropped, {used[0]} begin in training); " in printed
    )
    seen = []
    for folder in (output, output / "eval"):
        paths = [str(path) for path in sorted(folder.glob("*.tfrecord"))]
        ids = set()
        for record in tf.data.TFRecordDataset(paths).as_numpy_iterator():
            feature = tf.train.Example.FromString(record).features.feature
            # Labels, as inputs hold random replacements.
            ids |= set(feature["masked_lm_ids"].int64_list.value)
        seen.append({word for word in words if vocabulary.id_of(word) in ids})
    assert not seen[0] & seen[1]
    assert seen[0] and seen[1] and len(seen[0] | seen[1]) > 35


def test_more_shards_than_documents(capsys, tmp_path, vocab_file):
    """Shards without a document are there, empty: every reader finds all files it expects."""
    (tmp_path / "lines.txt").write_text("The river. A city.\nThe song.\n\nOne house.\nA game.\n")
    output = tmp_path / "out"
    flags = [f"--input={tmp_path}/lines.txt", "--format=lines", "--num_shards=5"]
    assert data(capsys, vocab_file, output, *flags)[0] == 0
    files = info(output)["files"]
    assert [file["name"] for file in files] == [f"part-0000{i}-of-00005.tfrecord" for i in range(5)]
    assert all((output / file["name"]).stat().st_size == file["bytes"] for file in files)
    assert info(output)["counts"]["documents"]["used"] == 2
    assert sum(file["instances"] == 0 for file in files) >= 3


JOB = PretrainingDataJob(vocab_file="vocab.txt", output="nowhere", max_seq_length=(32,))


def shard(number, documents=1):
    """The counts of a shard in which a document is used and perhaps others are copies."""
    counts = {"documents": 1, "duplicates": documents - 1, "near_duplicates": 0}
    file = (f"part-0000{number}-of-00002.tfrecord", 5, 9, "hash")
    empty = RecordStatistics.empty(32, 5)
    of_folder = FolderCounts(counts, {"instances": 5}, [(1, 1)], empty, [file])
    return ShardCounts(counts, {"nowhere": of_folder})


@pytest.mark.parametrize(
    ("shards", "read", "message"),
    [
        # More read than used, dropped or rejected can't be.
        ([shard(0), shard(1, 2)], Counter({"read": 5, "dropped empty": 1}), "documents were lost"),
        ([shard(0), shard(0, 2)], Counter({"read": 3}), "shards were lost or made twice"),
        ([shard(0)], Counter({"read": 1}), "shards were lost or made twice"),
        ([shard(0), shard(1)], Counter({"read": 2, "coverage": 1}), "parts of files were lost"),
    ],
)
def test_what_a_runner_loses_is_noticed(vocabulary, shards, read, message, monkeypatch):
    path = "beambert.pipelines.pretraining.graph.check_claimed"
    monkeypatch.setattr(path, lambda *_: None)
    plan = Plan(JOB, Layout(JOB, 2), {}, vocabulary, {}, (), InputList(), Sources(), "run")
    finish = FinishFolders(plan)
    with pytest.raises(RuntimeError, match=message):
        list(finish.process(None, add_shards(shards), read, []))


def test_a_part_read_twice_for_another_is_noticed(capsys, tmp_path, vocab_file, monkeypatch):
    """The sums of documents balance, and yet a part was never read."""
    from beambert.pipelines.corpus import transforms

    documents = [["The river began.", "The city ended."]] * 300
    (tmp_path / "wiki").write_text(wikiextractor(documents))
    monkeypatch.setattr("beambert.pipelines.corpus.base.PART_BYTES", 2000)
    split = transforms.split_file

    def twice(*of):
        first, second, *others = split(*of)
        assert others
        return [first, first, *others]

    monkeypatch.setattr(transforms, "split_file", twice)
    with pytest.raises(RuntimeError, match="parts of files were lost or read twice"):
        data(capsys, vocab_file, tmp_path / "out", f"--input={tmp_path}/wiki")
    assert not (tmp_path / "out" / "_SUCCESS").exists()


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


def test_verify(capsys, tmp_path, corpus_file, vocab_file):
    """All in one run."""
    given = []
    for pairs in ("none", "sop", "copy"):
        given.append(str(tmp_path / pairs))
        flags = [f"--vocab_file={vocab_file}", f"--input={corpus_file}", *SMALL]
        flags += [f"--pairs={pairs}", "--num_shards=3"]
        flags += ["--eval_fraction=0.25" if pairs == "none" else "--dupe_factor=20"]
        data_command.main([*flags, f"--output={given[-1]}"])
    status, printed, _ = verify(capsys, *given, f"--output={tmp_path}/verified")
    assert status == 0 and "documents in a record" in printed and "tokens of the text" in printed
    result = json.loads((tmp_path / "verified" / "verification.json").read_text())
    found = {folder["path"]: folder for folder in result["folders"]}
    for folder in found.values():
        assert folder["faults"] == []
        assert not [text for text in folder["warnings"] if "next" in text or "labels" in text]
    for path in (given[0], f"{given[0]}/eval"):
        figures, sample = found[path]["figures"], found[path]["sample"]
        assert figures["is_next_share"] is None and figures["documents_average"] > 1.1
        assert any(" [SEP] " in record["a"] for record in sample)
        assert all(record["b"] == "" for record in sample)
    assert found[given[1]]["figures"]["labels"] == ["in order", "swapped"]
    assert "  swapped, forced  " in printed and "random next" not in printed


@pytest.mark.slow
@pytest.mark.parametrize("pairs", ["next", "none"])
def test_the_estimate(capsys, tmp_path, vocab_file, pairs):
    generator = random.Random(4)
    documents = [make_document(generator, generator.randint(1, 40)) for _ in range(1200)]
    (tmp_path / "wiki").write_text(wikiextractor(documents))
    flags = [f"--input={tmp_path}/wiki", f"--pairs={pairs}", "--num_shards=2"]
    _, printed, _ = data(capsys, vocab_file, tmp_path / "out", *flags, "--dry_run")
    estimate = int(printed.split(" instances")[0].rsplit("\n", 1)[1].replace(",", ""))
    assert data(capsys, vocab_file, tmp_path / "out", *flags)[0] == 0
    assert estimate == pytest.approx(info(tmp_path / "out")["counts"]["instances"], rel=0.05)
