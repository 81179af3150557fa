"""Shared fixtures: small real-looking text, and where real data lies on machines that have it."""

import os
import pathlib

import pytest

from pipelines.records import SPECIAL_TOKENS, Vocabulary

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Real data that is not part of the project (Wikipedia text, GLUE, vocabularies); tests that want it
# skip where it is absent.
SHARED_DATA = pathlib.Path(
    os.environ.get(
        "BEAMBERT_TEST_DATA", pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
    )
)


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The folder of real data."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs the real data in {SHARED_DATA} (BEAMBERT_TEST_DATA)")
    return SHARED_DATA


_TEXT = (
    "the a of and to in is was for on with as by at from it that his her an be this which or are "
    "river city music house year people world war state film team game song album school church "
    "company family village north south east west old new first second large small great long "
    "made found built played wrote won lost began ended lived died born called known used"
)
WORDS = _TEXT.split()


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    """Every word of `WORDS`, single letters as starts and continuations, a full stop."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = [*letters, *(f"##{letter}" for letter in letters), ".", ","]
    return Vocabulary((*SPECIAL_TOKENS, *dict.fromkeys([*pieces, *WORDS])), "vocab.txt")


def make_document(random, sentences: int) -> list[str]:
    """Returns sentences of 4 to 14 words."""
    return [
        " ".join(random.choices(WORDS, k=random.randint(4, 14))).capitalize() + "."
        for _ in range(sentences)
    ]
