"""Shares of sources to passes, and the values of the flags."""

import pytest

from beambert.errors import InputError
from beambert.pipelines.pretraining.mixture import Mixture, parse_weights

NAMES = ("wiki", "books", "news")


def shares_of(passes, sizes):
    tokens = [number * size for number, size in zip(passes, sizes, strict=True)]
    return [token / sum(tokens) for token in tokens]


def test_weights_are_shares_of_the_tokens():
    weights = {"wiki": 0.2, "books": 0.7, "news": 0.1}
    sizes = [1_000_000, 50_000, 333]
    passes = Mixture(NAMES, weights).passes(sizes, dupe_factor=4)
    assert shares_of(passes, sizes) == pytest.approx([0.2, 0.7, 0.1])
    # The records have as many tokens as those of four passes.
    assert sum(n * size for n, size in zip(passes, sizes, strict=True)) == pytest.approx(
        4 * sum(sizes)
    )


def test_temperature_is_the_exponent_of_xlm():
    """XLM, section 3.1: the example's shares by q_i = p_i^a / sum p_j^a, computed by hand.

    p = (0.8, 0.1, 0.1) and a = 0.5: roots 0.894427, 0.316228, 0.316228, of which the sum is
    1.526883.
    """
    sizes = [8000, 1000, 1000]
    expected = [0.585786, 0.207107, 0.207107]
    assert Mixture(NAMES, temperature=0.5).shares(sizes) == pytest.approx(expected, abs=1e-6)
    assert Mixture(NAMES, temperature=0.0).shares(sizes) == pytest.approx([1 / 3] * 3)
    assert Mixture(NAMES, temperature=1.0).passes(sizes, 5) == pytest.approx([5.0] * 3)


def test_no_shares_are_asked_for():
    mixture = Mixture(NAMES)
    assert not mixture.needs_sizes
    assert mixture.passes([], 7) == [7.0] * 3


def test_the_greatest_number_of_passes():
    weights = {"wiki": 0.2, "books": 0.4, "news": 0.4}
    sizes = [10_000, 10_000, 100]
    passes = Mixture(NAMES, weights, max_epochs=10).passes(sizes, dupe_factor=2)
    assert passes[2] == 10
    # The two others share what is left as 0.2 to 0.4, and the amount is the same.
    assert passes[1] / passes[0] == pytest.approx(2)
    assert sum(n * size for n, size in zip(passes, sizes, strict=True)) == pytest.approx(2 * 20_100)


def test_a_second_source_reaches_it_because_of_the_first():
    weights = {"wiki": 0.1, "books": 0.45, "news": 0.45}
    passes = Mixture(NAMES, weights, max_epochs=3).passes([10_000, 5_000, 100], dupe_factor=2)
    assert passes[1:] == [3, 3]
    assert passes[0] == pytest.approx((2 * 15_100 - 3 * 5_100) / 10_000)


def test_a_source_without_a_token_is_refused():
    with pytest.raises(InputError, match=r"--source=news: no document of it gave an instance"):
        Mixture(NAMES, temperature=0.5).passes([5, 5, 0], 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wiki=0.5,books=0.4", "lacks news"),
        ("wiki=0.5,books=0.4,news=0.2", "they add up to 1.1, but must add up to 1"),
        ("wiki=0.5,wiki=0.5", "names wiki twice"),
        ("wiki=nan,books=1", "must be more than 0"),
    ],
)
def test_weights_that_are_refused(text, message):
    with pytest.raises(InputError, match="^--weights") as refused:
        parse_weights(text, NAMES)
    assert message in str(refused.value)


def test_thirds_with_few_digits_are_weights():
    weights = parse_weights("wiki=.3333333,books=.3333333,news=.3333333", NAMES)
    assert set(weights) == set(NAMES)
    assert parse_weights("", NAMES) == {}
