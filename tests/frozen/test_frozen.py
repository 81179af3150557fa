"""The values of frozen.json that are computed in a minute; frozen.py checks all."""

import pytest
from frozen import frozen

FAST = {
    "vocabularies": ("uncased", "bpe"),
    "records": (
        *("next", "sentence_order_whole_words", "copies_spans", "full_sentences_without_masks"),
        *("held_out", "bpe_pairs", "lengths", "sources"),
    ),
}
SLOW = {
    "vocabularies": ("cased", "covering", "unigram", "extended"),
    "records": tuple(set(frozen.JOBS) - set(FAST["records"]) - {"sources, two processes"}),
}


def parameters(chosen: dict[str, tuple[str, ...]]) -> list:
    return [
        pytest.param(group, name, id=f"{group}-{name}".replace(" ", "_"))
        for group, names in chosen.items()
        for name in sorted(names)
    ]


def check(group: str, name: str) -> None:
    try:
        assert not frozen.check(group, name, frozen.frozen())
    except frozen.Skipped as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("group, name", parameters(FAST))
def test_frozen(group, name):
    check(group, name)


@pytest.mark.slow
@pytest.mark.parametrize("group, name", parameters(SLOW))
def test_frozen_slow(group, name):
    check(group, name)
