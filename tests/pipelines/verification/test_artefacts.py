"""Traces of faulty input in records: markup, entities, boilerplate, scripts, broken words."""

import functools
import html
import operator
import random

import numpy as np
import pytest

from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from beambert.pipelines.verification.artefacts import (
    TokenTable,
    artefacts_in,
    count_artefacts,
)

WORDS = [f"{a}{b}" for a in "bcdfgklm" for b in ("at", "en", "ol", "ub", "ir")]
PIECES = ("&", "amp", ";", "#", "39", "x", "nb", "##sp", "br", "p", "b", *"<>/[]{}|¿½,.")
TOKENS = (*SPECIAL_TOKENS, *WORDS, *PIECES, "\ufffd", "##ing", "##ed", "слово", "語", "ひ")
TABLE = TokenTable.of(Vocabulary(TOKENS))
LENGTH = 24


def rows(*texts) -> np.ndarray:
    """Records whose A is a text of word pieces and whose B is one word."""
    ids = np.zeros((len(texts), LENGTH), np.int64)
    for row, text in zip(ids, texts, strict=True):
        pieces = ["[CLS]", *text.split(), "[SEP]", "bat", "[SEP]"]
        row[: len(pieces)] = [TOKENS.index(piece) for piece in pieces]
    return ids


def count(ids):
    return count_artefacts(ids, TABLE)


def prose(generator, words=12) -> str:
    return " ".join(generator.choice(WORDS) for _ in range(words))


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ("& amp ; bat", "entities"),
        ("& nb ##sp ;", "entities"),
        ("& # 39 ;", "entities"),
        ("& bat ;", ""),
        ("& bat , amp ;", ""),
        ("< br > bat", "markup"),
        ("< p bat bat >", "markup"),
        ("< / bat >", "markup"),
        ("br / >", ""),
        ("< b and bat >", ""),
        ("[ [ bat ] ]", "markup"),
        ("[ [ bat ben | bol ##ing ] ] , ben", "markup"),
        ("[ [ / / bat ] ]", ""),  # a synopsis, as of a manual
        ("[ [ bat ] ben ]", ""),
        ("] ] [ bat ]", ""),
        ("{ | bat", "markup"),
        ("[ bat ]", ""),
        ("¿ ½", "replacements"),
        ("\ufffd", "replacements"),
        ("¿ bat", ""),
    ],
)
def test_what_an_artefact_is(pieces, kind):
    assert list(artefacts_in(pieces.replace(" ##", ""))) == [kind] * bool(kind)
    # Python's own reader of HTML agrees about entities.
    text = pieces.replace(" ##", "").replace(" ", "")
    if pieces.startswith("&"):
        assert (html.unescape(text)[0] != "&" or "amp" in text[:4]) == (kind == "entities")


def test_records_are_counted_once_for_each_kind():
    found = count(
        rows(
            "bat & amp ; ben & amp ;", "< br > bat [ [ ben", "bat ben", "& # 39 ; ¿ ½", "bat & ben"
        )
    )
    assert found.records == 5
    assert dict(found.having) == {"entities": 2, "markup": 1, "replacements": 1}
    assert found.examples["entities"][1] == "bat & amp ; ben & amp ; bat"
    assert "< br >" in found.examples["markup"][1]


def test_nothing_crosses_the_end_of_a_record():
    assert not count(rows("bat &", "amp ; ben", "bat [", "[ ben")).having


def test_scripts_and_broken_words():
    many = " ".join(["слово"] * 9)
    found = count(
        rows(many, "語 ひ " * 5, "bat " * 9, "[UNK] " * 9, "bat " * 6, "bat ##ing ##ed " * 4)
    )
    # The fifth has too few words to have a main script.
    scripts = {"CYRILLIC": 1, "CJK": 1, "[UNK]": 1, "LATIN": 2}
    assert dict(found.main_scripts) == scripts
    assert found.words["CYRILLIC"] == 9 and found.words["CJK"] == 10
    assert found.broken == 1


def test_sums_are_the_counts_of_all():
    generator = random.Random(2)
    texts = [f"{prose(generator, 13)} & amp ;" for _ in range(9)]
    texts += [prose(generator) for _ in range(21)] + ["слово " * 9] * 3
    whole = count(rows(*texts))
    parts = functools.reduce(
        operator.add, (count(rows(*texts[i : i + 8])) for i in range(0, 33, 8))
    )
    for name in ("records", "having", "examples", "words", "main_scripts"):
        assert getattr(parts, name) == getattr(whole, name), name


def test_an_id_beyond_the_vocabulary_is_unknown():
    ids = rows("bat " * 9)
    ids[0, 1:10] = (len(TOKENS), -1, *[10**6] * 7)
    assert dict(count(ids).main_scripts) == {"[UNK]": 1}
