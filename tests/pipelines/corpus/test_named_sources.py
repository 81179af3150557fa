"""The values of --source."""

import pytest

from beambert.errors import InputError
from beambert.pipelines.corpus.sources import parse_sources


def test_sources():
    given = ["wiki=a/*,b/*", "books=c=d.txt"]
    assert parse_sources(given) == {"wiki": ("a/*", "b/*"), "books": ("c=d.txt",)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["wiki"], "has an empty pattern"),
        (["a/b=c"], "must begin with a name"),
        (["../x=c"], "must begin with a name"),
        (["wiki=a", "wiki=b"], "wiki is the name of another source"),
    ],
)
def test_sources_that_are_refused(given, message):
    with pytest.raises(InputError, match="^--source=") as refused:
        parse_sources(given)
    assert message in str(refused.value)
