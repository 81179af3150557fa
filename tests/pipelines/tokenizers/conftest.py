"""Small tokenizers with the steps of five public ones, in folders as models have them."""

import random

import pytest
from support.nasty_text import GOLDEN
from support.sample_text import make_document
from support.tokenizer_kinds import KINDS, train

# Text with capitals, accents, Chinese, emoji, white space of all kinds, and what looks special.
HARD = [
    "The River's end — in Pariš, 1,000 times; isn't it?",
    " leading and  double   spaces\tand tabs\u00a0",
    "“Quotes” ``and'' ﬁgures ² ½ ① Ａ ｶ",
    "naïve cafe\u0301 Ångström \u1e9e İstanbul",
    "漢字 と ひらがな 한국어 🙂👍🏽 \u200b zero",
    "</s> <s> [SEP] [MASK] <mask> <pad> <unk>",
    "",
    " ",
]


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Sentences like text, and some of the hard texts."""
    generator = random.Random(3)
    plain = [text for _ in range(60) for text in make_document(generator, 8)]
    return [*plain, *HARD[:5] * 3]


@pytest.fixture(scope="session")
def folders(tmp_path_factory, texts):
    """kind -> folder with its tokenizer.json."""
    root = tmp_path_factory.mktemp("tokenizers")
    for kind in KINDS:
        (root / kind).mkdir()
        train(kind, texts, 420).save(str(root / kind / "tokenizer.json"))
    return {kind: root / kind for kind in KINDS}


@pytest.fixture(scope="session")
def golden_texts() -> list[str]:
    """The texts of the golden file of BERT's own tokenizer, and hard ones."""
    return [case["text"] for case in GOLDEN["cases"]] + HARD
