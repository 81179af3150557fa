"""What the tests of the data command share: running it, and reading its folders."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import tensorflow as tf

from beambert.cli import run_main
from beambert.pipelines.create_pretraining_data import main
from beambert.pipelines.records.contract import feature_shapes
from beambert.pipelines.verify import main as verify_main
from support import forked

ROOT = pathlib.Path(__file__).parents[2]
SMALL = ["--max_seq_length=32", "--max_predictions_per_seq=5", "--dupe_factor=2"]


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


TWO_PROCESSES = ["--direct_num_workers=2"]


def run_process(flags) -> subprocess.CompletedProcess:
    """Runs the command as a user does."""
    command = [sys.executable, "-m", "beambert", "data", *flags]
    return forked.run(command, capture_output=True, text=True, cwd=ROOT)


def read_records(folder) -> dict[str, np.ndarray]:
    """Reads all records of a folder as a user's TensorFlow does; name -> [records, length]."""
    about = info(folder)
    parameters = about["parameters"]
    shapes = feature_shapes(
        parameters["max_seq_length"],
        parameters.get("max_predictions_per_seq", 0),
        parameters["pairs"] != "none",
    )
    spec = {n: tf.io.FixedLenFeature([length], kind) for n, (length, kind) in shapes.items()}
    paths = [str(folder / file["name"]) for file in about["files"]]
    compression = "GZIP" if parameters["compression"] == "gzip" else ""
    records = list(tf.data.TFRecordDataset(paths, compression).as_numpy_iterator())
    for record in records:
        assert set(tf.train.Example.FromString(record).features.feature) == set(shapes)
    return {name: value.numpy() for name, value in tf.io.parse_example(records, spec).items()}


def restored(rows) -> np.ndarray:
    """The ids of records before masking, [records, length]."""
    ids = rows["input_ids"].copy()
    row, slot = np.nonzero(rows["masked_lm_weights"])
    ids[row, rows["masked_lm_positions"][row, slot]] = rows["masked_lm_ids"][row, slot]
    return ids


def verify(capsys, *arguments):
    """Runs `verify` in this process; returns its exit status, what it printed, and errors."""
    try:
        status = run_main("verify", verify_main, [str(argument) for argument in arguments])
    except SystemExit as stop:
        status = stop.code
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def verified(capsys, folder, output) -> tuple[int, str, dict]:
    """Returns the exit status of `verify`, what it printed, and its findings."""
    status, printed, _ = verify(capsys, folder, f"--output={output}")
    return status, printed, json.loads((output / "verification.json").read_text())


def temporary(folder) -> list[str]:
    """The files that no finished or failed run should leave."""
    return [str(path) for path in folder.rglob("_tmp-*")]
