"""Word pieces become readable text."""

import pytest

from beambert.pipelines.tokenizers.pieces import join_pieces


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ("un ##want ##ed , he said .", "unwanted, he said."),
        ("( it isn ' t theirs )", "(it isn't theirs)"),
        ("the dogs ' house", "the dogs ' house"),
        ("his [MASK→friend] ' s", "his [MASK→friend]'s"),
        ("tom & amp ; jerry", "tom & amp; jerry"),
        ("##ing at the start", "ing at the start"),
        ("a ## b", "a ## b"),
        ("we ’ ll see : 5 % !", "we’ll see: 5%!"),
        ("", ""),
    ],
)
def test_join(pieces, text):
    assert join_pieces(pieces.split()) == text
