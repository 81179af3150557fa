"""The data command end to end: the same bytes from every way to run it, and every bad input."""

import gzip
import hashlib
import json
import pathlib
import random
import subprocess
import sys

import pytest
import tensorflow as tf
from conftest import make_document

from pipelines.console import run_main
from pipelines.create_pretraining_data import main
from pipelines.records import SPECIAL_TOKENS

SMALL = ["--max_seq_length=32", "--max_predictions_per_seq=5", "--dupe_factor=2"]


@pytest.fixture(scope="module")
def corpus():
    """80 documents, each a list of sentences; two without a word, as redirects are."""
    generator = random.Random(0)
    documents = [make_document(generator, generator.randint(1, 12)) for _ in range(80)]
    return [*documents, [], []]


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory, vocabulary):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_bytes(vocabulary.serialize())
    return path


def body(sentences) -> str:
    """A paragraph a sentence, so that how they split is certain."""
    return "".join(sentence + "\n" for sentence in sentences)


def wikiextractor(documents) -> str:
    return "".join(f'<doc id="1" title="x">\n{body(d)}</doc>\n' for d in documents)


def data(capsys, vocab_file, output, *arguments):
    """Runs the command in this process; returns its exit status and what it printed."""
    flags = [f"--vocab_file={vocab_file}", f"--output={output}", *SMALL, *map(str, arguments)]
    status = run_main("data", main, flags)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def info(output) -> dict:
    return json.loads((output / "info.json").read_text())


def hashes(output) -> dict[str, str]:
    return {file["name"]: file["sha256"] for file in info(output)["files"]}


def refused(result, *parts):
    """One line on stderr, status 2, and in the line what a user must know."""
    status, _, error = result
    assert status == 2
    assert error.count("\n") == 1 and error.startswith("beambert data: ")
    for part in parts:
        assert str(part) in error


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory, corpus):
    path = tmp_path_factory.mktemp("corpus") / "wiki_00"
    path.write_text(wikiextractor(corpus))
    return path


@pytest.fixture(scope="module")
def records(tmp_path_factory, corpus_file, vocab_file):
    """A finished folder with a held-out part, made as a user would make it."""
    output = tmp_path_factory.mktemp("records") / "out"
    flags = [f"--vocab_file={vocab_file}", f"--input={corpus_file}", f"--output={output}", *SMALL]
    command = [sys.executable, "-m", "beambert", "data"]
    run = subprocess.run(
        [*command, *flags, "--num_shards=3", "--eval_fraction=0.25"],
        capture_output=True,
        text=True,
        check=False,
        cwd=pathlib.Path(__file__).parents[2],
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert f"{output}: " in run.stdout and "is next" in run.stdout
    return output


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

    def test_records_have_the_features_of_the_original(self, records):
        path = str(records / "part-00000-of-00003.tfrecord")
        (record,) = tf.data.TFRecordDataset(path).take(1).as_numpy_iterator()
        features = tf.train.Example.FromString(record).features.feature
        lengths = {
            name: len(value.int64_list.value) or len(value.float_list.value)
            for name, value in features.items()
        }
        assert lengths == {
            "input_ids": 32,
            "input_mask": 32,
            "segment_ids": 32,
            "masked_lm_positions": 5,
            "masked_lm_ids": 5,
            "masked_lm_weights": 5,
            "next_sentence_labels": 1,
        }

    def test_again_is_nothing_to_do(self, capsys, records, corpus_file, vocab_file):
        before = {path: path.stat().st_mtime_ns for path in records.rglob("*")}
        flags = [f"--input={corpus_file}", "--num_shards=3", "--eval_fraction=0.25"]
        status, out, err = data(capsys, vocab_file, records, *flags)
        assert (status, err) == (0, "") and "already finished" in out
        assert before == {path: path.stat().st_mtime_ns for path in records.rglob("*")}

    def test_other_parameters_are_refused(self, capsys, records, corpus_file, vocab_file):
        before = {path: path.read_bytes() for path in records.rglob("*") if path.is_file()}
        flags = [f"--input={corpus_file}", "--num_shards=3", "--eval_fraction=0.25"]
        result = data(capsys, vocab_file, records, *flags, "--random_seed=7")
        refused(result, records, "random_seed", "there 12345", "here 7")
        after = {path: path.read_bytes() for path in records.rglob("*") if path.is_file()}
        assert before == after


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
        monkeypatch.setattr("pipelines.transforms.BATCH_CHARACTERS", 1000)
        output = tmp_path / "out"
        inputs = ["--input", tmp_path / "c*", tmp_path / "*.txt", tmp_path / "b.jsonl"]
        status, _, err = data(capsys, vocab_file, output, *inputs, *self.flags)
        assert (status, err) == (0, "")
        assert hashes(output) == hashes(records)
        assert hashes(output / "eval") == hashes(records / "eval")
        assert len(info(output)["inputs"]) == 3

    @pytest.mark.slow
    def test_two_processes(self, tmp_path, records, corpus, vocab_file):
        for i in range(4):
            (tmp_path / f"part{i}").write_text(wikiextractor(corpus[i::4]))
        flags = [f"--vocab_file={vocab_file}", f"--input={tmp_path}/part*", *SMALL, *self.flags]
        flags += ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
        run = subprocess.run(
            [sys.executable, "-m", "beambert", "data", f"--output={tmp_path}/out", *flags],
            capture_output=True,
            text=True,
            check=False,
            cwd=pathlib.Path(__file__).parents[2],
        )
        assert (run.returncode, run.stderr) == (0, "")
        assert hashes(tmp_path / "out") == hashes(records)

    def test_unfinished_folder_is_continued(self, capsys, tmp_path, corpus_file, vocab_file):
        """A run that stopped half-way: the same command completes it to the same bytes."""
        whole, broken = tmp_path / "whole", tmp_path / "broken"
        flags = [f"--input={corpus_file}", "--num_shards=2"]
        assert data(capsys, vocab_file, whole, *flags)[0] == 0
        broken.mkdir()
        (broken / "_UNFINISHED").write_bytes((whole / "_SUCCESS").read_bytes())
        (broken / "part-00000-of-00002.tfrecord").write_bytes(b"half a shard")
        (broken / "_tmp-0-left-over").write_bytes(b"x")
        assert data(capsys, vocab_file, broken, *flags)[0] == 0
        assert hashes(broken) == hashes(whole)
        assert {p.name for p in broken.iterdir()} == {p.name for p in whole.iterdir()}
        content = (broken / "part-00000-of-00002.tfrecord").read_bytes()
        assert hashlib.sha256(content).hexdigest() in hashes(broken).values()

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
        grown = info(output)["counts"]["documents"]["used"] + info(output / "eval")["counts"][
            "documents"
        ]["used"]
        assert grown == 81


def test_held_out_documents_are_not_trained_on(capsys, tmp_path, vocabulary, vocab_file):
    """Each document repeats a word of its own, so that its records name it."""
    words = vocabulary.tokens[-40:]
    documents = [[f"{word} {word} {word} {word}."] * 6 for word in words]
    (tmp_path / "wiki").write_text(wikiextractor(documents))
    output = tmp_path / "out"
    flags = [f"--input={tmp_path}/wiki", "--eval_fraction=0.4", "--num_shards=2"]
    assert data(capsys, vocab_file, output, *flags)[0] == 0
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


class TestRejects:
    @pytest.fixture
    def broken(self, tmp_path, corpus):
        path = tmp_path / "broken"
        text = wikiextractor(corpus[:9]).encode()
        path.write_bytes(text + b'<doc id="9" title="y">\nfine\ncaf\xe9 bad\n</doc>\n')
        return path

    def test_undecodable_bytes(self, capsys, tmp_path, broken, vocab_file):
        output = tmp_path / "out"
        line = broken.read_bytes().split(b"\xe9")[0].count(b"\n") + 1
        result = data(capsys, vocab_file, output, f"--input={broken}")
        refused(result, broken, f"byte 0xe9 on line {line}", "--max_reject_fraction", "1 of 10")
        (reject,) = map(json.loads, (output / "rejects.jsonl").read_text().splitlines())
        assert (reject["file"], reject["line"], reject["reason"]) == (str(broken), line, "not_utf8")
        assert not (output / "_SUCCESS").exists()
        # The same command with leave to lose that one goes on in the same folder.
        flags = [f"--input={broken}", "--max_reject_fraction=0.1"]
        status, out, err = data(capsys, vocab_file, output, *flags)
        assert (status, err) == (0, "") and "(1 dropped)" in out
        counts = info(output)["counts"]["documents"]
        assert counts["rejected"] == {"not_utf8": 1}
        assert (counts["read"], counts["used"], counts["in_other_split"]) == (10, 9, 0)
        assert (output / "rejects.jsonl").exists()

    @pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
    def test_compressed_file_that_is_cut_off(
        self, capsys, tmp_path, corpus, vocab_file, ending
    ):
        import bz2

        import zstandard

        compress = {
            ".gz": gzip.compress,
            ".bz2": bz2.compress,
            ".zst": zstandard.ZstdCompressor().compress,
        }[ending]
        text = wikiextractor(corpus).encode()
        path, output = tmp_path / f"wiki{ending}", tmp_path / "out"
        # Two streams end to end, as parallel compressors and multistream dumps have them.
        whole = compress(text) + compress(text)
        path.write_bytes(whole[:-20])
        refused(data(capsys, vocab_file, output, f"--input={path}"), path, "cut off")
        damaged = bytearray(whole)
        damaged[len(whole) // 4] ^= 0xFF
        damaged[len(whole) // 4 + 1] ^= 0xFF
        path.write_bytes(damaged)
        refused(data(capsys, vocab_file, tmp_path / "out2", f"--input={path}"), path)
        path.write_bytes(whole)
        assert data(capsys, vocab_file, tmp_path / "out3", f"--input={path}")[0] == 0
        assert info(tmp_path / "out3")["counts"]["documents"]["read"] == 2 * len(corpus)


class TestBadInput:
    """Each gives one sentence, status 2, and leaves what was there."""

    def test_missing_pattern(self, capsys, tmp_path, vocab_file):
        pattern = tmp_path / "nothing*"
        refused(data(capsys, vocab_file, tmp_path / "out", f"--input={pattern}"), pattern)
        assert not (tmp_path / "out").exists()

    def test_one_of_two_patterns_missing(self, capsys, tmp_path, corpus_file, vocab_file):
        flags = ["--input", corpus_file, tmp_path / "nothing"]
        refused(data(capsys, vocab_file, tmp_path / "out", *flags), tmp_path / "nothing")

    @pytest.mark.parametrize("content", [b"", b"\n \n\n", b"\0" * 1000])
    def test_empty_corpus(self, capsys, tmp_path, vocab_file, content):
        (tmp_path / "empty.txt").write_bytes(content)
        flags = [f"--input={tmp_path}/empty.txt"]
        refused(data(capsys, vocab_file, tmp_path / "out", *flags), "--input", "no document")
        assert not (tmp_path / "out" / "_SUCCESS").exists()

    def test_nothing_held_out(self, capsys, tmp_path, corpus_file, vocab_file):
        """The remedy is about the split, and the training part isn't finished without it."""
        output = tmp_path / "out"
        flags = [f"--input={corpus_file}", "--eval_fraction=0.000001"]
        refused(data(capsys, vocab_file, output, *flags), "--eval_fraction=1e-06", "held out 0 of")
        assert not (output / "_SUCCESS").exists()

    def test_negative_seed(self, capsys, tmp_path, corpus_file, vocab_file):
        flags = [f"--input={corpus_file}", "--random_seed=-1"]
        refused(data(capsys, vocab_file, tmp_path / "out", *flags), "--random_seed=-1")

    def test_somebody_elses_folder_with_brackets(self, capsys, tmp_path, corpus_file, vocab_file):
        """Characters that stand for others in a pattern hide nothing; nor do folders in it."""
        for name, inside in (("runs[1]", "thesis.tex"), ("runs", "folder/thesis.tex")):
            output = tmp_path / name
            (output / inside).parent.mkdir(parents=True)
            (output / inside).write_text("mine")
            result = data(capsys, vocab_file, output, f"--input={corpus_file}")
            refused(result, output, "something else")

    def test_folder_as_input(self, capsys, tmp_path, vocab_file):
        (tmp_path / "folder").mkdir()
        flags = [f"--input={tmp_path}/folder"]
        refused(data(capsys, vocab_file, tmp_path / "out", *flags), tmp_path / "folder")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda tokens: [t for t in tokens if t != "[MASK]"], "lacks [MASK]"),
            (lambda tokens: [*tokens, "river"], "'river' stands on two lines"),
            (lambda tokens: [*SPECIAL_TOKENS, "The", "House", "river"], "--do_lower_case=False"),
            (lambda tokens: ["\udce9", *tokens], "not UTF-8"),
        ],
    )
    def test_vocabulary(self, capsys, tmp_path, corpus_file, vocabulary, change, message):
        path = tmp_path / "vocab.txt"
        lines = "".join(f"{token}\n" for token in change(list(vocabulary.tokens)))
        path.write_bytes(lines.encode("utf-8", "surrogateescape"))
        refused(data(capsys, path, tmp_path / "out", f"--input={corpus_file}"), path, message)
        assert not (tmp_path / "out").exists()

    def test_missing_vocabulary(self, capsys, tmp_path, corpus_file):
        path = tmp_path / "none.txt"
        result = data(capsys, path, tmp_path / "out", f"--input={corpus_file}")
        refused(result, f"--vocab_file={path}")

    def test_output_holds_something_else(self, capsys, tmp_path, corpus_file, vocab_file):
        (tmp_path / "thesis.tex").write_text("years of work")
        result = data(capsys, vocab_file, tmp_path, f"--input={corpus_file}")
        refused(result, f"--output={tmp_path}", "thesis.tex")
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]

    def test_output_is_a_file(self, capsys, tmp_path, corpus_file, vocab_file):
        (tmp_path / "file").write_text("mine")
        result = data(capsys, vocab_file, tmp_path / "file", f"--input={corpus_file}")
        refused(result, tmp_path / "file")
        assert (tmp_path / "file").read_text() == "mine"

    @pytest.mark.parametrize(
        ("flag", "message"),
        [
            ("--no_such_flag=1", "--no_such_flag"),
            ("--max_seq_length=4", "--max_seq_length=4"),
            ("--dupe_factor=0", "--dupe_factor=0"),
            ("--num_shards=0", "--num_shards=0"),
            ("--eval_fraction=1", "--eval_fraction=1"),
            ("--masked_lm_prob=-0.1", "--masked_lm_prob=-0.1"),
            ("--max_seq_length=many", "--max_seq_length"),
            ("--do_lower_case=perhaps", "--do_lower_case"),
        ],
    )
    def test_flags(self, capsys, tmp_path, corpus_file, vocab_file, flag, message):
        result = data(capsys, vocab_file, tmp_path / "out", f"--input={corpus_file}", flag)
        refused(result, message)
        assert not (tmp_path / "out").exists()

    def test_required_flag_is_missing(self, capsys, tmp_path, vocab_file):
        refused(data(capsys, vocab_file, tmp_path / "out"), "--input")


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


def test_lost_documents_are_noticed():
    """More read than used, dropped or rejected can't be: the job fails rather than say so."""
    from pipelines.manifest import count_documents
    from pipelines.transforms import ShardEntry

    counts = {"documents": 2, "duplicates": 1, "near_duplicates": 0}
    shards = [ShardEntry(counts, {})]
    assert count_documents(shards, {"read": 4, "dropped empty": 1}) == 2
    with pytest.raises(RuntimeError, match="lost"):
        count_documents(shards, {"read": 5, "dropped empty": 1})
