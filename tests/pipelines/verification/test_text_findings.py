"""What verify says of the text: traces of faulty input, ten records to read, and warnings."""

import dataclasses
import functools
import html
import json
import operator
import random

import numpy as np
import pytest
from support.record_files import serialize, write

from beambert.pipelines.records.contract import RecordsInfo
from beambert.pipelines.records.figures import MadeWith
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from beambert.pipelines.verification.artefacts import (
    ArtefactCounts,
    TokenTable,
    artefact_at_start,
    count_artefacts,
    text_figures,
    text_warnings,
)
from beambert.pipelines.verify import main

CLEAN = ArtefactCounts(
    records=10_000,
    having={},
    examples={},
    words={"LATIN": 90_000},
    main_scripts={"LATIN": 10_000},
    broken=0,
)


def info(documents=None, **counts) -> RecordsInfo:
    return RecordsInfo({}, {}, [], [], {"documents": documents or {}, **counts}, {})


def warnings(about=None, made_with=None, length=128, **changes) -> list[str]:
    counts = dataclasses.replace(CLEAN, **changes)
    return text_warnings(counts, about, made_with or MadeWith(), length)


@pytest.mark.parametrize("kind", ["entities", "replacements", "markup"])
def test_artefacts(kind):
    examples = {kind: ("a file", "tom & jerry")}
    assert warnings(having={kind: 50}, examples=examples) == []
    (warning,) = warnings(having={kind: 51}, examples=examples)
    assert warning.startswith("0.5% of the records contain ") and "“tom & jerry”" in warning


def test_scripts():
    assert warnings(main_scripts={"LATIN": 9900, "GREEK": 60, "[UNK]": 40}) == []
    (warning,) = warnings(main_scripts={"LATIN": 9800, "GREEK": 150, "[UNK]": 50})
    assert (
        "2.0% of the records" in warning and "LATIN" in warning and "1.5% are of GREEK" in warning
    )
    (warning,) = warnings(main_scripts={"LATIN": 9800, "[UNK]": 200})
    assert "words that are [UNK]" in warning
    # One other script has no other next to it.
    assert warnings(main_scripts={"CYRILLIC": 10_000}) == []
    assert warnings(main_scripts={}) == []


def test_sources():
    few = info(random_next=1000, random_next_other_source=100)
    many = info(random_next=1000, random_next_other_source=300)
    assert warnings(few) == [] == warnings(info(random_next=1000))
    (warning,) = warnings(many)
    assert "30.0% of the random next pairs" in warning and "65.0%" in warning
    assert "--random_next=source" in warning
    (warning,) = warnings(many, MadeWith(pairs="sop"))
    assert "30.0% of the swapped pairs" in warning
    # The advice was followed, as far as there are other documents of the source.
    assert warnings(dataclasses.replace(many, parameters={"random_next": "source"})) == []
    assert text_figures(None, many)["random_next_other_source_share"] == 0.3
    assert text_figures(None, None)["random_next_other_source_share"] is None


WORDS = [f"{a}{b}" for a in "bcdfgklm" for b in ("at", "en", "ol", "ub", "ir")]
TOKENS = [*SPECIAL_TOKENS, *WORDS, "&", "amp", ";", "##s"]


def record(text, generator) -> bytes:
    """A record of A and B with one token hidden."""
    a, b = (text.split() for _ in range(2))
    pieces = ["[CLS]", *a, "[SEP]", *b, "[SEP]"]
    ids = [TOKENS.index(piece) for piece in pieces]
    position = generator.randrange(1, len(a))
    label, ids[position] = ids[position], TOKENS.index("[MASK]")
    padding = [0] * (48 - len(ids))
    return serialize(
        {
            "input_ids": ids + padding,
            "input_mask": [1] * len(ids) + padding,
            "segment_ids": [0] * (len(a) + 2) + [1] * (len(b) + 1) + padding,
            "masked_lm_positions": [position],
            "masked_lm_ids": [label],
            "masked_lm_weights": [1.0],
            "next_sentence_labels": [generator.randrange(2)],
        }
    )


def verified(tmp_path, capsys, texts) -> tuple[dict, str]:
    """Verifies records of some texts; returns the only folder's findings, and what is printed."""
    generator = random.Random(0)
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    serialized = [record(text, generator) for text in texts]
    for number in range(2):
        write(folder / f"{number}.tfrecord", serialized[number::2])
    main([str(folder)])
    found = json.loads((tmp_path / "records-verification" / "verification.json").read_text())
    return found["folders"][0], capsys.readouterr().out


def prose(generator, words=12) -> str:
    return " ".join(generator.choice(WORDS) for _ in range(words))


def test_ten_records_to_read(tmp_path, capsys):
    generator = random.Random(3)
    texts = [prose(generator, 12) for _ in range(90)]
    folder, printed = verified(tmp_path, capsys, texts)
    assert len(folder["sample"]) == 10
    assert {shown["file"][-10:] for shown in folder["sample"]} == {"0.tfrecord", "1.tfrecord"}
    page = (tmp_path / "records-verification" / "verification.html").read_text()
    for shown in folder["sample"]:
        text = texts[(shown["number"] - 1) * 2 + int(shown["file"][-10])]
        assert shown["b"] == text
        hidden = next(w for w in text.split() if f"[MASK→{w}]" in shown["a"])
        assert shown["a"].replace(f"[MASK→{hidden}]", hidden) == text
        assert f"B: {text}" in printed and text in page
    assert not any("contain" in warning for warning in folder["warnings"])


def test_injected_faults_are_seen(tmp_path, capsys):
    generator = random.Random(4)
    texts = [prose(generator, 18) for _ in range(150)]
    texts += [f"{prose(generator, 6)} & amp ; {prose(generator, 5)}" for _ in range(5)]
    texts += ["bat " + "##s " * 12 for _ in range(6)]
    folder, _ = verified(tmp_path, capsys, texts)
    figures = folder["figures"]
    assert figures["entities_share"] == pytest.approx(5 / 161, abs=1e-6)
    assert figures["scripts"] == {"LATIN": 1.0}
    for part in ("an HTML entity", "another language"):
        assert any(part in warning for warning in folder["warnings"]), part


PIECES = ("&", "amp", ";", "#", "39", "x", "nb", "##sp", "br", "p", "b", *"<>/[]{}|¿½,.")


PIECE_TOKENS = (*SPECIAL_TOKENS, *WORDS, *PIECES, "\ufffd", "##ing", "##ed", "слово", "語", "ひ")


TABLE = TokenTable.of(Vocabulary(PIECE_TOKENS))


LENGTH = 24


def rows(*texts) -> np.ndarray:
    """Records whose A is a text of word pieces and whose B is one word."""
    ids = np.zeros((len(texts), LENGTH), np.int64)
    for row, text in zip(ids, texts, strict=True):
        pieces = ["[CLS]", *text.split(), "[SEP]", "bat", "[SEP]"]
        row[: len(pieces)] = [PIECE_TOKENS.index(piece) for piece in pieces]
    return ids


def count(ids):
    return count_artefacts(ids, TABLE)


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
    assert artefact_at_start(pieces.split()) == kind
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
    assert found.examples["entities"][1] == "bat & amp; ben & amp"
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
    ids[0, 1:10] = (len(PIECE_TOKENS), -1, *[10**6] * 7)
    assert dict(count(ids).main_scripts) == {"[UNK]": 1}
