"""`--max_seq_length=8192`: records of a long document, beside short ones of the same pass."""

import json
import random

import numpy as np
import pytest
from support import data_command
from support.data_command import data, read_records, restored, verify
from support.sample_text import make_document

vocab_file = data_command.vocab_file
LENGTH, PREDICTIONS = 8192, 1229
LONG = [f"--max_seq_length=64,{LENGTH}", f"--max_predictions_per_seq=10,{PREDICTIONS}"]


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory):
    """A document of 30,000 tokens or so, and thirty of 300."""
    generator = random.Random(5)
    documents = [make_document(generator, 3000), *(make_document(generator, 30) for _ in range(30))]
    path = tmp_path_factory.mktemp("long") / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": "\n".join(d)}) + "\n" for d in documents))
    return path


@pytest.mark.slow
def test_the_records_of_both_lengths_are_the_same_text(
    corpus_file, vocab_file, vocabulary, tmp_path, capsys
):
    output = tmp_path / "out"
    flags = ("--pairs=none", "--dupe_factor=1", "--eval_fraction=0.3", "--num_shards=1")
    status, _, error = data(capsys, vocab_file, output, f"--input={corpus_file}", *LONG, *flags)
    assert (status, error) == (0, "")
    special = vocabulary.special
    frame = [special.padding, special.classify, special.separate]
    for split in ("", "/eval"):
        short, long = (restored(read_records(output / f"{n}{split}")) for n in (64, LENGTH))
        assert long.shape[1] == LENGTH and not np.isin(long, [special.mask]).any()
        of_each = [
            np.bincount(x[~np.isin(x, frame)], minlength=len(vocabulary)) for x in (short, long)
        ]
        assert np.array_equal(*of_each) and of_each[0].sum() > 10_000
    # A held-out segment of the long document fills a record: it isn't eight short ones.
    ends = (np.flatnonzero(np.isin(row, frame[1:])) for row in long)
    assert max(np.diff(end).max() for end in ends) > 5000
    folders = [str(output / str(n)) for n in (64, LENGTH)]
    assert verify(capsys, *folders, f"--output={tmp_path}/report")[0] == 0
