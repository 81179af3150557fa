"""The verify command: finished folders, others' files, and everything that can be wrong."""

import json
import os
import pathlib
import random
import shutil
import sys

import pytest
from support import forked
from support.data_command import verify
from support.record_files import GOLDEN, ORIGINAL, RECORD, changed, read, write
from support.sample_text import make_document

from beambert.pipelines.create_pretraining_data import main as data_main
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS


def found(output) -> dict:
    return json.loads((pathlib.Path(output) / "verification.json").read_text())


def only(result) -> dict:
    (folder,) = result["folders"]
    return folder


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory, vocabulary):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_bytes(vocabulary.serialize())
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory, vocab_file):
    """A finished folder with a held-out part."""
    folder = tmp_path_factory.mktemp("data")
    generator = random.Random(0)
    documents = [make_document(generator, generator.randint(2, 12)) for _ in range(120)]
    lines = "\n".join("".join(f"{sentence}\n" for sentence in document) for document in documents)
    (folder / "text").write_text(lines)
    flags = [f"--input={folder / 'text'}", f"--vocab_file={vocab_file}", "--eval_fraction=0.3"]
    flags += ["--max_seq_length=64", "--max_predictions_per_seq=10", "--dupe_factor=2"]
    flags += [f"--output={folder / 'records'}", "--num_shards=2", "--format=lines"]
    data_main(flags)
    return folder / "records"


@pytest.fixture
def records(tmp_path, finished):
    """A copy of the finished folder, to damage."""
    return pathlib.Path(shutil.copytree(finished, tmp_path / "records"))


@pytest.fixture
def original(tmp_path):
    """A folder as the original script's users have: records of any name, a vocabulary."""
    folder = tmp_path / "original"
    folder.mkdir()
    shutil.copy(ORIGINAL, folder / "tf_examples.tfrecord")
    tokens = json.loads((GOLDEN / "original.json").read_text())["vocabulary"]
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    return folder


def part(folder, number=0) -> pathlib.Path:
    return sorted(folder.glob("part-*"))[number]


class TestFinishedFolder:
    @pytest.mark.slow
    def test_in_order(self, capsys, records, tmp_path):
        before = {path: path.stat().st_mtime_ns for path in records.rglob("*")}
        status, printed, error = verify(capsys, records)
        assert (status, error) == (0, "")
        assert "0 faults, 0 warnings" in printed
        result = found(tmp_path / "records-verification")
        assert [folder["path"] for folder in result["folders"]] == [
            str(records),
            str(records / "eval"),
        ]
        for folder in result["folders"]:
            info = json.loads((pathlib.Path(folder["path"]) / "info.json").read_text())
            assert folder["faults"] == []
            names = ("instances", "bytes", "sha256")
            assert [[file[name] for name in names] for file in folder["files"]] == [
                [file[name] for name in names] for file in info["files"]
            ]
            counts, figures = info["counts"], folder["figures"]
            assert figures["instances"] == counts["instances"]
            assert f"{100 * counts['is_next_share']:.2f} %" in printed
            assert figures["is_next_share"] == pytest.approx(counts["is_next_share"], abs=1e-6)
            assert figures["filled_share"] == pytest.approx(counts["filled_share"], abs=1e-6)
            forced = counts["forced_random_next"] / counts["instances"]
            assert figures["forced_random_next_share"] == pytest.approx(forced, abs=1e-6)
            assert sum(folder["histograms"]["mask_positions"]) == counts["predictions"]
        held_out = result["folders"][1]
        assert held_out["held_out_of"] == str(records)
        assert held_out["figures"]["openings_also_in_training"] < 0.01
        assert {path: path.stat().st_mtime_ns for path in records.rglob("*")} == before

    @pytest.mark.release
    def test_as_a_user_runs_it_with_two_workers(self, records, tmp_path):
        command = [sys.executable, "-m", "beambert", "verify", str(records)]
        command += ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
        root = pathlib.Path(__file__).parents[3]
        run = forked.run(command, capture_output=True, text=True, cwd=root)
        assert (run.returncode, run.stderr) == (0, "")
        assert f"Report: {tmp_path / 'records-verification' / 'verification.html'}" in run.stdout

    @pytest.mark.slow
    def test_several_lengths(self, capsys, records, tmp_path):
        """As `128/` and `512/`, each a records folder with its held-out part."""
        (tmp_path / "both").mkdir()
        for length in ("128", "512"):
            shutil.copytree(records, tmp_path / "both" / length)
        shutil.copytree(records, tmp_path / "both" / "else")
        assert verify(capsys, tmp_path / "both")[0] == 0
        paths = [f["path"] for f in found(tmp_path / "both-verification")["folders"]]
        inner = ("128", "128/eval", "512", "512/eval")
        assert sorted(paths) == [str(tmp_path / "both" / name) for name in inner]


def flip(path, place=1000):
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)


def edit_info(folder, change):
    info = json.loads((folder / "info.json").read_text())
    change(info)
    (folder / "info.json").write_text(json.dumps(info))


# What is done to a finished folder -> what each fault must name.
DAMAGE = {
    "flipped byte": (lambda f: flip(part(f)), ["part-00000", "damaged in", "record 3"]),
    "cut off": (
        lambda f: part(f, 1).write_bytes(part(f, 1).read_bytes()[:-5]),
        ["part-00001", "cut off in record"],
    ),
    "missing file": (lambda f: part(f, 1).unlink(), ["part-00001-of-00002.tfrecord", "missing"]),
    "extra file": (
        lambda f: shutil.copy(part(f), f / "more.tfrecord"),
        ["more.tfrecord", "is not listed"],
    ),
    "no marker": (lambda f: (f / "_SUCCESS").unlink(), ["unfinished", "_SUCCESS"]),
    "other order": (
        lambda f: write(part(f), read(part(f))[::-1]),
        ["part-00000", "sha256", "info.json says"],
    ),
    "other vocabulary": (
        lambda f: (f / "vocab.txt").write_text((f / "vocab.txt").read_text() + "more\n"),
        ["vocab.txt", "is not the vocabulary"],
    ),
    "other counts": (
        lambda f: edit_info(f, lambda info: info["counts"].update(predictions=1)),
        ["predictions", "info.json says 1"],
    ),
    "other length": (
        lambda f: edit_info(f, lambda info: info["parameters"].update(max_seq_length=128)),
        ["max_seq_length is 128", "64"],
    ),
}


class TestDamage:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", DAMAGE)
    def test_finished_folder(self, capsys, records, name):
        damage, parts = DAMAGE[name]
        damage(records / "eval" if name in ("no marker", "other counts") else records)
        status, printed, error = verify(capsys, records)
        assert (status, error) == (1, "")
        faults = [line for line in printed.splitlines() if line.startswith("  FAULT")]
        assert any(all(text in fault for text in parts) for fault in faults), faults

    def test_faults_of_records_name_count_and_file(self, capsys, original):
        vocabulary = "\n".join((*SPECIAL_TOKENS, *map(str, range(5, 40))))
        (original / "vocab.txt").write_text(vocabulary)
        (original / "tf_examples.tfrecord").unlink()
        write(original / "a.tfrecord", [RECORD] * 3)
        write(original / "b.tfrecord", [RECORD, *[changed(input_ids={1: 77})] * 2])
        write(original / "c.tfrecord", [changed(next_sentence_labels=[3])])
        status, printed, _ = verify(capsys, original)
        assert status == 1
        beyond, label = only(found(f"{original}-verification"))["faults"]
        assert beyond.startswith("2 records have an id") and "b.tfrecord" in beyond
        assert label.startswith("1 records have a next_sentence_labels") and "c.tfrecord" in label

    def test_other_lengths_in_one_folder(self, capsys, original):
        longer = {name: [*values, values[-1]] for name, values in RECORD.items()}
        write(original / "z.tfrecord", [longer])
        status, _, _ = verify(capsys, original)
        (fault,) = only(found(f"{original}-verification"))["faults"]
        assert status == 1 and "another length" in fault and "z.tfrecord" in fault

    def test_file_that_is_no_record_file(self, capsys, original):
        (original / "notes.tfrecord").write_text("a line of text, long enough for a header")
        status, _, _ = verify(capsys, original)
        (fault,) = only(found(f"{original}-verification"))["faults"]
        assert status == 1 and "notes.tfrecord: not a TFRecord file" in fault

    def test_nothing_can_be_read(self, capsys, tmp_path):
        (tmp_path / "a.tfrecord").write_bytes(ORIGINAL.read_bytes()[:50])
        status, printed, error = verify(capsys, tmp_path / "a.tfrecord", f"--output={tmp_path}/o")
        assert (status, error) == (1, "") and "cut off in record 1" in printed

    def test_a_file_has_its_report_in_the_working_folder(self, capsys, original, monkeypatch):
        """Not in the finished folder of its records."""
        before = sorted(original.iterdir())
        (original.parent / "here").mkdir()
        monkeypatch.chdir(original.parent / "here")
        status, printed, _ = verify(capsys, original / "tf_examples.tfrecord")
        name = "tf_examples.tfrecord-verification"
        assert status == 0 and f"Report: {name}/verification.html" in printed
        assert found(name)["faults"] == 0
        assert sorted(original.iterdir()) == before

    def test_empty_shard_is_no_fault(self, capsys, original):
        (original / "empty.tfrecord").write_bytes(b"")
        assert verify(capsys, original)[0] == 0


class TestOthersRecords:
    def test_no_record_at_all(self, capsys, tmp_path):
        """What the original script makes of nothing."""
        (tmp_path / "x.tfrecord").write_bytes(b"")
        status, out, _ = verify(capsys, tmp_path, f"--output={tmp_path}/report")
        assert status == 1 and "has no records" in out and "1 fault," in out

    def test_original_script(self, capsys, original):
        status, printed, error = verify(capsys, original)
        assert (status, error) == (0, "")
        folder = only(found(f"{original}-verification"))
        golden = json.loads((GOLDEN / "original.json").read_text())
        share = golden["random_next"] / golden["instances"]
        assert folder["figures"]["random_next_share"] == pytest.approx(share, abs=1e-6)
        assert folder["figures"]["forced_random_next_share"] is None
        assert any("need the records' info.json" in text for text in folder["not_checked"])

    def test_files_by_pattern_without_a_vocabulary(self, capsys, tmp_path):
        for number in range(2):
            shutil.copy(ORIGINAL, tmp_path / f"wiki-{number:05d}-of-00002")
        output = f"--output={tmp_path / 'report'}"
        status, printed, _ = verify(capsys, tmp_path / "wiki-*", output)
        folder = only(found(tmp_path / "report"))
        assert status == 0 and folder["figures"]["instances"] == 210
        assert folder["figures"]["unknown_share"] is None
        assert any("--vocab_file" in text for text in folder["not_checked"])
        # Every record stands there twice.
        assert folder["figures"]["repeated_records_share"] == pytest.approx(0.5, abs=0.01)
        assert any("duplicate" in text for text in folder["warnings"])

    @pytest.mark.slow
    def test_wrong_vocabulary(self, capsys, original, tmp_path, vocabulary):
        tokens = (original / "vocab.txt").read_text().splitlines()
        (tmp_path / "short.txt").write_text("\n".join(tokens[:50]))
        status, printed, _ = verify(capsys, original, f"--vocab_file={tmp_path / 'short.txt'}")
        assert status == 1 and "beyond the vocabulary" in printed
        (tmp_path / "moved.txt").write_text("\n".join(["x", *tokens]))
        status, printed, _ = verify(capsys, original, f"--vocab_file={tmp_path / 'moved.txt'}")
        assert status == 1 and "105 records do not begin with the vocabulary's [CLS]" in printed

    @pytest.mark.slow
    def test_held_out_records_that_are_trained_on(self, capsys, records):
        for path in (records / "eval").iterdir():
            path.unlink()
        copied = read(part(records))[:50]
        write(records / "eval" / "a.tfrecord", copied)
        status, printed, _ = verify(capsys, records)
        held_out = found(f"{records}-verification")["folders"][1]
        assert status == 0 and held_out["figures"]["sequences_also_in_training"] == 1.0
        assert any("100.0% of the held-out records" in text for text in held_out["warnings"])


class TestBadInput:
    @pytest.mark.parametrize("target", ["/dev/zero", "nowhere", "fifo"])
    @pytest.mark.parametrize("is_alone", [True, False])
    def test_what_has_no_end_is_not_read(self, capsys, tmp_path, target, is_alone):
        os.mkfifo(tmp_path / "fifo")
        folder = tmp_path / "folder"
        folder.mkdir()
        (folder / "a.tfrecord").symlink_to(tmp_path / target)
        given = folder / "a.tfrecord" if is_alone else folder
        status, _, error = verify(capsys, given, f"--output={tmp_path / 'report'}")
        assert status == 2 and error.count("\n") == 1 and "a.tfrecord" in error
        assert not (tmp_path / "report").exists()

    @pytest.mark.parametrize(
        "arguments, parts",
        [
            (["{tmp}/nowhere"], ["nowhere", "check the path"]),
            (["{original}", "--output={tmp}/taken"], ["--output", "something else"]),
            (["{original}", "--vocab_file={tmp}/none.txt"], ["--vocab_file", "none.txt"]),
            (["{original}/vocab.txt"], ["vocab.txt: holds no TFRecords; name a records folder"]),
        ],
    )
    def test_one_sentence(self, capsys, tmp_path, original, arguments, parts):
        (tmp_path / "empty").mkdir()
        (tmp_path / "taken").mkdir()
        (tmp_path / "taken" / "thesis.tex").write_text("")
        filled = [text.format(tmp=tmp_path, original=original) for text in arguments]
        status, _, error = verify(capsys, *filled)
        assert status == 2 and error.count("\n") == 1
        for text in parts:
            assert text in error
        assert not (tmp_path / "original-verification").exists()
