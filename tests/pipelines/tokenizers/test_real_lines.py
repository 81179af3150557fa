"""60,000 lines of Wikipedia and novels have the ids that the library gives, in each kind."""

import numpy as np
import pytest
from support.tokenizer_kinds import KINDS, train
from tokenizers import Tokenizer

from beambert import storage
from beambert.pipelines.tokenizers.encoding import make_tokenizer
from beambert.pipelines.tokenizers.folders import read_given

LINES, LEARNED = 60_000, 4_000


@pytest.fixture(scope="module")
def lines(shared_data) -> list[str]:
    """As many lines of each file."""
    files = [
        *sorted((shared_data / "wiki_extracted").iterdir()),
        *(shared_data / "novels").iterdir(),
    ]
    each = -(-LINES // len(files))
    found = []
    for file in sorted(files):
        text = file.read_text("utf-8", "replace")
        found += [line for line in text.split("\n") if line.strip()][:each]
    assert len(found) > 0.9 * LINES
    return found


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(each, marks=pytest.mark.slow if each == "albert" else pytest.mark.release)
        for each in KINDS
    ],
)
def test_no_line_differs(lines, tmp_path, kind):
    file = tmp_path / "tokenizer.json"
    train(kind, lines[::15][:LEARNED], 2000).save(str(file))
    vocabulary, do_lower_case = read_given(
        None, str(file), None, storage.read_bytes, storage.exists
    )
    ids, lengths = make_tokenizer(vocabulary, do_lower_case).tokenize_batch(lines)
    expected = Tokenizer.from_file(str(file)).encode_batch(lines, add_special_tokens=False)
    parts = np.split(ids, np.cumsum(lengths)[:-1])
    differing = [
        line
        for line, part, each in zip(lines, parts, expected, strict=True)
        if part.tolist() != each.ids
    ]
    assert differing == []
