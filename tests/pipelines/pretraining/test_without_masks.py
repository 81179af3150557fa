"""`--masks=none` end to end: the text of the records with masks, and nothing else."""

import json
import shutil

import numpy as np
import pytest
from google.protobuf import text_format
from support import data_command
from support.data_command import data, info, read_records, refused, restored, verify
from tensorflow_metadata.proto.v0 import schema_pb2

from beambert.pipelines.records.contract import feature_shapes

SMALL = ["--max_seq_length=32", "--dupe_factor=2", "--num_shards=3"]
OF_MASKS = {
    *("max_predictions_per_seq", "masked_lm_prob", "do_whole_word_mask", "do_span_mask"),
}


@pytest.fixture(scope="module", params=["next", "none"])
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


def test_verify(capsys, both, tmp_path):
    """The folder, one without info.json, and two with that of other records, in one run."""
    alone = tmp_path / "alone"
    alone.mkdir()
    for path in [*both[0].glob("part-*"), both[0] / "vocab.txt"]:
        shutil.copy(path, alone)
    swapped = []
    for here, there in (both, both[::-1]):
        swapped.append(tmp_path / f"swapped-{here.name}")
        shutil.copytree(here, swapped[-1], ignore=shutil.ignore_patterns("eval"))
        other = info(here) | {"parameters": info(there)["parameters"]}
        (swapped[-1] / "info.json").write_text(json.dumps(other))
    given = [str(folder) for folder in (both[0], alone, *swapped)]
    status, _, _ = verify(capsys, *given, f"--output={tmp_path}/verified")
    assert status == 1
    result = json.loads((tmp_path / "verified" / "verification.json").read_text())
    found = {folder["path"]: folder for folder in result["folders"]}
    for path in (*given[:2], f"{given[0]}/eval"):
        assert found[path]["faults"] == [] and len(found[path]["sample"]) == 10
        assert found[path]["figures"]["predictions_average"] is None
        assert not any("predict" in text for text in found[path]["warnings"])
    for path, words in (
        (given[2], "says masks is static, but the records lack masked_lm_positions"),
        (given[3], "says masks is none, but the records have masked_lm_positions"),
    ):
        assert any(words in fault for fault in found[path]["faults"])


def test_flags_of_masks_beside_none(capsys, tmp_path, corpus_file, vocab_file):
    flag = "--max_predictions_per_seq=5"
    flags = [f"--input={corpus_file}", "--masks=none", flag]
    refused(data(capsys, vocab_file, tmp_path / "o", *flags), flag, "--masks=none")
    assert not (tmp_path / "o").exists()
