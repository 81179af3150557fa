"""The verify command: finished folders, others' files, and everything that can be wrong."""

import contextlib
import io
import json
import os
import pathlib
import random
import shutil

import pytest
from support.data_command import verify
from support.record_files import GOLDEN, ORIGINAL, RECORD, changed, read, write
from support.sample_text import make_document

from beambert.pipelines.create_pretraining_data import main as data_main
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS
from beambert.pipelines.verification.folders import find_folders
from beambert.pipelines.verify import main


def found(output) -> dict:
    return json.loads((pathlib.Path(output) / "verification.json").read_text())


def only(result) -> dict:
    (folder,) = result["folders"]
    return folder


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


def train_on_held_out(folder):
    for path in (folder / "eval").iterdir():
        path.unlink()
    write(folder / "eval" / "a.tfrecord", read(part(folder))[:50])


class Run:
    """What one run of `verify` prints and finds in many folders."""

    def __init__(self, inputs, output):
        printed = io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            pytest.raises(SystemExit) as stop,
        ):
            main([*map(str, inputs), f"--output={output}"])
        assert stop.value.code == 1
        self.printed = printed.getvalue()
        self.folders = {folder["path"]: folder for folder in found(output)["folders"]}


@pytest.fixture(scope="module")
def run(tmp_path_factory, finished):
    """Of copies of a finished folder: some in order, and others damaged, each in another way."""
    root = tmp_path_factory.mktemp("copies")
    for length in ("128", "512"):
        shutil.copytree(finished, root / "in order" / length)
    shutil.copytree(finished, root / "in order" / "else")
    for name, (damage, _) in DAMAGE.items():
        copy = pathlib.Path(shutil.copytree(finished, root / name))
        damage(copy / "eval" if name in ("no marker", "other counts") else copy)
    train_on_held_out(pathlib.Path(shutil.copytree(finished, root / "trained on")))
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    made = Run(sorted(root.iterdir()), root.with_name("report"))
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    made.root = root
    return made


class TestFinishedFolder:
    def test_in_order(self, run):
        """As `128/` and `512/`, each a records folder with its held-out part."""
        inner = ("128", "128/eval", "512", "512/eval")
        folders = [run.folders[f"{run.root}/in order/{name}"] for name in inner]
        assert f"{run.root}/in order/else" not in run.folders
        for folder in folders:
            info = json.loads((pathlib.Path(folder["path"]) / "info.json").read_text())
            assert folder["faults"] == []
            assert not [text for text in folder["warnings"] if "gap" not in text]  # random words
            names = ("instances", "bytes", "sha256")
            assert [[file[name] for name in names] for file in folder["files"]] == [
                [file[name] for name in names] for file in info["files"]
            ]
            counts, figures = info["counts"], folder["figures"]
            assert figures["instances"] == counts["instances"]
            assert f"{100 * counts['is_next_share']:.2f} %" in run.printed
            assert figures["is_next_share"] == pytest.approx(counts["is_next_share"], abs=1e-6)
            assert figures["filled_share"] == pytest.approx(counts["filled_share"], abs=1e-6)
            forced = counts["forced_random_next"] / counts["instances"]
            assert figures["forced_random_next_share"] == pytest.approx(forced, abs=1e-6)
        whole = run.folders[f"{run.root}/in order/128"]["figures"]["forced_random_next_share"]
        half = run.folders[f"{run.root}/missing file"]["figures"]
        assert half["forced_random_next_share"] == whole > 0
        held_out = folders[1]
        assert held_out["held_out_of"] == folders[0]["path"]
        assert held_out["figures"]["openings_also_in_training"] < 0.01

    @pytest.mark.parametrize("name", DAMAGE)
    def test_damage(self, run, name):
        _, parts = DAMAGE[name]
        path = run.root / name
        faults = [
            fault for inner in (path, path / "eval") for fault in run.folders[str(inner)]["faults"]
        ]
        assert any(all(text in fault for text in parts) for fault in faults), faults
        assert all(f"  FAULT    {fault}" in run.printed for fault in faults)

    def test_held_out_records_that_are_trained_on(self, run):
        held_out = run.folders[f"{run.root}/trained on/eval"]
        assert held_out["figures"]["sequences_also_in_training"] == 1.0
        assert any("100.0% of the held-out records" in text for text in held_out["warnings"])


class TestOthersRecords:
    def test_faults(self, tmp_path):
        """Of six folders in one run."""
        vocabulary = "\n".join((*SPECIAL_TOKENS, *map(str, range(5, 40))))
        longer = {name: [*values, values[-1]] for name, values in RECORD.items()}
        records = {
            "counted/a": [RECORD] * 3,
            "counted/b": [RECORD, *[changed(input_ids={1: 77})] * 2],
            "counted/c": [changed(next_sentence_labels=[3])],
            "longer/y": [RECORD],
            "longer/z": [longer],
            "notes/a": [RECORD],
            "none/x": [],
            "cut/a": [RECORD],
            "empty/a": [],
            "empty/b": [RECORD],
        }
        for name, content in records.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            write(tmp_path / f"{name}.tfrecord", content)
            (tmp_path / name).with_name("vocab.txt").write_text(vocabulary)
        (tmp_path / "notes" / "b.tfrecord").write_text("a line of text, longer than a header")
        cut = tmp_path / "cut" / "a.tfrecord"
        cut.write_bytes(cut.read_bytes()[:50])
        run = Run(sorted(tmp_path.iterdir()), tmp_path / "report")
        faults = {pathlib.Path(path).name: of["faults"] for path, of in run.folders.items()}
        beyond, label = faults["counted"]
        assert beyond.startswith("2 records have an id") and "b.tfrecord" in beyond
        assert label.startswith("1 records have a next_sentence_labels") and "c.tfrecord" in label
        (fault,) = faults["longer"]
        assert "another length" in fault and "z.tfrecord" in fault
        (fault,) = faults["notes"]
        assert "b.tfrecord: not a TFRecord file" in fault
        (fault,) = faults["none"]
        assert "has no records" in fault
        (fault,) = faults["cut"]
        assert "cut off in record 1" in fault
        assert faults["empty"] == []

    def test_a_file_that_is_deleted_meanwhile(self, original, monkeypatch):
        monkeypatch.setattr(os, "walk", lambda path: [(path, [], ["gone", "tf_examples.tfrecord"])])
        (folder,) = find_folders([str(original)], None)
        assert [os.path.basename(name) for name in folder.files] == ["tf_examples.tfrecord"]

    def test_original_script(self, capsys, original, monkeypatch):
        """The report on a file isn't in the folder of its records."""
        before = sorted(original.iterdir())
        (original.parent / "here").mkdir()
        monkeypatch.chdir(original.parent / "here")
        status, printed, error = verify(capsys, original / "tf_examples.tfrecord")
        name = "tf_examples.tfrecord-verification"
        assert (status, error) == (0, "") and f"Report: {name}/verification.json" in printed
        assert sorted(original.iterdir()) == before
        folder = only(found(name))
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


class TestBadInput:
    @pytest.mark.parametrize(
        "arguments, parts",
        [
            (["{tmp}/nowhere"], ["nowhere", "check the path"]),
            (["{original}", "--output={tmp}/taken"], ["--output", "something else"]),
            (["{original}", "--output={tmp}/page"], ["--output", "something else"]),
            (["{original}", "--output={tmp}/json"], ["verification.json", "not made by"]),
            (["{original}", "--vocab_file={tmp}/none.txt"], ["--vocab_file", "none.txt"]),
            (["{original}/vocab.txt"], ["vocab.txt: holds no TFRecords; name a records folder"]),
        ],
    )
    def test_one_sentence(self, capsys, tmp_path, original, arguments, parts):
        (tmp_path / "empty").mkdir()
        files = ("taken/thesis.tex", "page/verification.html", "json/verification.json")
        for file in map(tmp_path.joinpath, files):
            file.parent.mkdir()
            file.write_text("{}")
        filled = [text.format(tmp=tmp_path, original=original) for text in arguments]
        status, _, error = verify(capsys, *filled)
        assert status == 2 and error.count("\n") == 1
        for text in parts:
            assert text in error
        assert not (tmp_path / "original-verification").exists()
