"""`--masks=none` end to end: the text of the records with masks, and nothing else."""

import json
import shutil

import numpy as np
import pytest
from google.protobuf import text_format
from support import data_command
from support.data_command import (
    hashes,
    info,
    read_records,
    refused,
    restored,
    verified,
    wikiextractor,
)
from tensorflow_metadata.proto.v0 import schema_pb2

from beambert.cli import run_main
from beambert.pipelines.records.contract import feature_shapes

corpus, corpus_file = data_command.corpus, data_command.corpus_file
vocab_file = data_command.vocab_file
SMALL = ["--max_seq_length=32", "--dupe_factor=2", "--num_shards=3"]
OF_MASKS = {
    *("max_predictions_per_seq", "masked_lm_prob", "do_whole_word_mask", "do_span_mask"),
}


def data(capsys, vocab_file, output, *arguments):
    """Runs the command in this process; returns its exit status and what it printed."""
    flags = [f"--vocab_file={vocab_file}", f"--output={output}", *SMALL, *map(str, arguments)]
    status = run_main("data", data_command.main, flags)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.fixture(scope="module", params=["next", "none", "sop"])
def pairs(request):
    return request.param


@pytest.fixture(scope="module")
def both(tmp_path_factory, corpus_file, vocab_file, pairs):
    """Folders of the same job, without masks and with them."""
    folder = tmp_path_factory.mktemp("both")
    flags = [f"--vocab_file={vocab_file}", f"--input={corpus_file}", *SMALL, f"--pairs={pairs}"]
    flags += ["--eval_fraction=0.25"]
    data_command.main([*flags, "--masks=none", f"--output={folder}/none"])
    data_command.main([*flags, f"--output={folder}/static"])
    return folder / "none", folder / "static"


def test_the_records_are_those_of_static_masks_before_masking(both):
    """The same texts in the same order."""
    for inner in ("", "eval"):
        mine, theirs = (read_records(folder / inner) for folder in both)
        assert theirs["masked_lm_weights"].sum() > len(theirs["input_ids"])
        np.testing.assert_array_equal(mine["input_ids"], restored(theirs))
        for name in mine.keys() - {"input_ids"}:
            np.testing.assert_array_equal(mine[name], theirs[name])


def test_the_small_files(both):
    mine, theirs = map(info, both)
    assert theirs["parameters"].keys() - mine["parameters"].keys() == OF_MASKS
    assert mine["parameters"] == {
        "masks": "none",
        **{name: value for name, value in theirs["parameters"].items() if name not in OF_MASKS},
    }
    assert "masks" not in theirs["parameters"]
    gone = theirs["counts"].keys() - mine["counts"].keys()
    assert gone == {"predictions", "predictions_per_instance"}
    assert mine["counts"].items() <= theirs["counts"].items()
    schema = text_format.Parse((both[0] / "schema.pbtxt").read_text(), schema_pb2.Schema())
    assert {feature.name for feature in schema.feature} == set(
        feature_shapes(32, 0, mine["parameters"]["pairs"] != "none")
    )
    sizes = [sum(file["bytes"] for file in each["files"]) for each in (mine, theirs)]
    assert sizes[0] < 0.75 * sizes[1]


@pytest.mark.slow
def test_verify(capsys, both, tmp_path):
    status, printed, found = verified(capsys, both[0], tmp_path / "verified")
    assert (status, found["faults"]) == (0, 0)
    assert "none; the training draws them" in printed
    for word in ("predict", "hidden", "→"):
        assert word not in printed
    page = (tmp_path / "verified" / "verification.html").read_text()
    assert page.count("<svg") == 2 * len(found["folders"]) and "[MASK]" not in page
    for folder in found["folders"]:
        assert len(folder["sample"]) == 10


@pytest.mark.slow
def test_verify_finds_an_info_of_other_records(capsys, both, tmp_path):
    for here, there, words in (
        (both[0], both[1], "says masks is static, but the records lack masked_lm_positions"),
        (both[1], both[0], "says masks is none, but the records have masked_lm_positions"),
    ):
        folder = tmp_path / here.name
        shutil.copytree(here, folder, ignore=shutil.ignore_patterns("eval"))
        told = info(here) | {"parameters": info(there)["parameters"]}
        (folder / "info.json").write_text(json.dumps(told))
        status, printed, _ = verified(capsys, folder, tmp_path / f"{here.name}-verified")
        assert status == 1 and words in printed


@pytest.mark.slow
def test_verify_without_info(capsys, both, tmp_path):
    """The features of the first record tell."""
    for path in [*both[0].glob("part-*"), both[0] / "vocab.txt"]:
        shutil.copy(path, tmp_path)
    status, printed, found = verified(capsys, tmp_path, tmp_path.with_suffix(".verified"))
    assert (status, found["faults"]) == (0, 0)
    assert "draws them" in printed


@pytest.mark.slow
def test_every_way_makes_the_same_bytes(capsys, tmp_path, both, corpus, vocab_file, pairs):
    """Several files in other bundles, either shuffle, and the parts in a custom pipeline."""
    for i in range(4):
        (tmp_path / f"part{i}").write_text(wikiextractor(corpus[i::4]))
    inputs = f"{tmp_path}/part*"
    flags = (f"--input={inputs}", f"--pairs={pairs}", "--masks=none", "--eval_fraction=0.25")
    for way in ("files", "runner"):
        status, _, error = data(capsys, vocab_file, tmp_path / way, *flags, f"--shuffle={way}")
        assert (status, error) == (0, "")
    for way in ("files", "runner"):
        for inner in ("", "eval"):
            assert hashes(tmp_path / way / inner) == hashes(both[0] / inner)


@pytest.mark.parametrize(
    "flag",
    [
        "--max_predictions_per_seq=5",
    ],
)
def test_flags_of_masks_beside_none(capsys, tmp_path, corpus_file, vocab_file, flag):
    result = data(
        capsys, vocab_file, tmp_path / "o", f"--input={corpus_file}", "--masks=none", flag
    )
    refused(result, f"{flag}: cannot be given with --masks=none", "leave it out", "--mask_rate")
    assert not (tmp_path / "o").exists()
