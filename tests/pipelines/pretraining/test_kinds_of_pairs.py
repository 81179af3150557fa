"""The values of --pairs end to end: what the folders hold, and that `verify` copes with them."""

import json
import random

import pytest
from support import data_command
from support.data_command import (
    SMALL,
    data,
    info,
    verify,
    wikiextractor,
)
from support.sample_text import make_document

corpus, corpus_file = data_command.corpus, data_command.corpus_file
vocab_file = data_command.vocab_file


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
