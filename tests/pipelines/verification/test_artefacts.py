"""Traces of faulty input in records, the warnings about them, and ten records to read."""

import dataclasses
import html
import json
import random

import numpy as np
import pytest
from support.record_files import made_with, serialize, write

from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from beambert.pipelines.verification.artefacts import (
    CASED_STARTS,
    OPEN_ENDS,
    SEGMENTS,
    SMALL_STARTS,
    Artefact,
    TokenTable,
    add_artefacts,
    artefacts_in,
    find_artefacts,
    text_figures,
    text_warnings,
)
from beambert.pipelines.verify import main

WORDS = [f"{a}{b}" for a in "bcdfgklm" for b in ("at", "en", "ol", "ub", "ir")]
PIECES = ("&", "amp", ";", "#", "39", "x", "nb", "##sp", "br", "p", "b", *"<>/[]{}|¿½,.")
GAPS = ("the", "of", "The", "(", ")", "thumb")
TOKENS = (*SPECIAL_TOKENS, *WORDS, *PIECES, *GAPS, "\ufffd", "##ing", "##ed", "##s")
TABLE = TokenTable.of(Vocabulary(TOKENS))
LENGTH = 24


def rows(*texts) -> np.ndarray:
    """Records whose A is a text of word pieces and whose B is one word."""
    ids = np.zeros((len(texts), LENGTH), np.int64)
    for row, text in zip(ids, texts, strict=True):
        pieces = ["[CLS]", *text.split(), "[SEP]", "bat", "[SEP]"]
        row[: len(pieces)] = [TOKENS.index(piece) for piece in pieces]
    return ids


def count(ids, path="a"):
    """The artefacts in records, without the counts of segments."""
    found = find_artefacts(ids, TABLE, path)
    others = (SEGMENTS, OPEN_ENDS, CASED_STARTS, SMALL_STARTS)
    return {kind: of for kind, of in found.items() if kind not in others}


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
        ("bat | thumb | ben", "markup"),
        ("[ bat ]", ""),
        ("¿ ½", "replacements"),
        ("\ufffd", "replacements"),
        ("¿ bat", ""),
        ("bat = = = = ben", "signs"),
        ("bat ==== ben", "signs"),
        ("bat = ben = bol ~ ~ ~ #", ""),
    ],
)
def test_what_an_artefact_is(pieces, kind):
    assert list(artefacts_in(pieces.replace(" ##", ""))) == [kind] * bool(kind)
    # Python's own reader of HTML agrees about entities.
    text = pieces.replace(" ##", "").replace(" ", "")
    if pieces.startswith("&"):
        assert (html.unescape(text)[0] != "&" or "amp" in text[:4]) == (kind == "entities")


def test_records_are_counted_once_for_each_kind():
    texts = (
        "bat & amp ; ben & amp ;",
        "< br > bat [ [ ben",
        "bat ben",
        "& # 39 ; ¿ ½",
        "bat & ben",
    )
    found = count(rows(*texts, "bat ##ing ##ed " * 4))
    counted = {kind: of.records for kind, of in found.items()}
    assert counted == {"entities": 2, "markup": 1, "replacements": 1, "broken_words": 1}
    assert found["entities"].example == "bat & amp ; ben & amp ; bat"
    assert "< br >" in found["markup"].example


def test_nothing_crosses_the_end_of_a_record():
    assert not count(rows("bat &", "amp ; ben", "bat [", "[ ben"))


@pytest.mark.parametrize(
    ("pieces", "is_hole"),
    [
        ("bat ( ) ben", True),
        ("bat ( ben )", False),
        ("bat ( ) ;", False),  # code: "bat();"
        ("bat [ ] # ben", False),
        ("bat [ , ben ] ;", True),
        ("bat of of ben", True),
        ("bat The , ben", True),
        ("the ben of bat", False),
        ("bat the the ##s ben", False),  # the word "thes"
        ("bat , , ben", True),
    ],
)
def test_gaps(pieces, is_hole):
    found = count(rows("bat ben", pieces))
    assert list(found) == ["holes"] * is_hole
    if is_hole:
        assert found["holes"].records == 1 and "bat" in found["holes"].example


def test_a_vocabulary_without_capitals_says_nothing_of_sentences():
    table = TokenTable.of(Vocabulary([token for token in TOKENS if token != "The"]))
    assert TABLE.case.any() and not table.case.any()


def test_only_whole_segments_are_counted():
    """Of a pair that was cut to fit, the longer segment begins and ends anywhere."""
    cut, equal = (
        ["[CLS]", *a.split(), "[SEP]", *b.split(), "[SEP]"]
        for a, b in (("bat " * 14, "The ben of bol , ben ."), ("bat " * 11, "The " * 10))
    )
    packed = ["[CLS]", "The", "bat", ".", "[SEP]", "ben", ")", ".", "[SEP]", "bol", "[SEP]"]
    full = ["[CLS]", *("The bat . ben " * 5).split(), "bol", "bol", "[SEP]"]
    ids = np.zeros((4, LENGTH), np.int64)
    for row, pieces in zip(ids, (cut, equal, packed, full), strict=True):
        row[: len(pieces)] = [TOKENS.index(piece) for piece in pieces[:LENGTH]]
    found = find_artefacts(ids, TABLE)
    counted = {kind: found[kind].records for kind in (SEGMENTS, CASED_STARTS, SMALL_STARTS)}
    assert counted == {SEGMENTS: 5, CASED_STARTS: 5, SMALL_STARTS: 2}
    assert found[OPEN_ENDS].records == 2
    assert found[SMALL_STARTS].example.startswith("The bat . | ben ) .")
    faulty = np.full((2, LENGTH), TOKENS.index("bat"))
    assert find_artefacts(faulty, TABLE)[SEGMENTS].records == 2


def test_sums_are_the_counts_of_all():
    generator = random.Random(2)
    texts = [prose(generator) for _ in range(21)]
    texts += [f"{prose(generator, 13)} & amp ;" for _ in range(9)] + ["bat ##ing ##ed " * 4] * 3
    whole = count(rows(*texts))
    parts = [count(rows(*texts[i : i + 8])) for i in range(0, 33, 8)]
    assert add_artefacts(parts) == whole and whole["entities"].records == 9
    files = [count(rows(texts[-4]), "b"), count(rows(texts[-5]), "a")]
    assert add_artefacts(files)["entities"] == files[1]["entities"]._replace(records=2)


def test_an_id_beyond_the_vocabulary_is_unknown():
    ids = rows("bat " * 9)
    ids[0, 1:10] = (len(TOKENS), -1, *[10**6] * 7)
    assert not count(ids)


def warnings(about=None, **numbers) -> list[str]:
    """The warnings about 10,000 records."""
    found = {kind: Artefact(number, "a file", "tom & jerry") for kind, number in numbers.items()}
    return text_warnings(found, 10_000, about or made_with(), 128)


def test_warnings_just_above_each_threshold():
    for kind in ("entities", "replacements", "markup", "signs"):
        assert warnings(**{kind: 50}) == []
        (warning,) = warnings(**{kind: 51})
        assert warning.startswith("51 records (0.5%) contain ") and "“tom & jerry”" in warning
    assert warnings(holes=100) == [] == warnings(made_with(pairs="copy"), holes=500)
    assert "101 records (1.0%)" in warnings(holes=101)[0]
    of_segments = {"segments": 400, "cased_starts": 200}
    assert warnings(**of_segments, small_starts=10, open_ends=200) == []
    (warning,) = warnings(**of_segments, small_starts=11)
    assert warning.startswith("11 segments (5.5%)") and "--layout=wrapped" in warning
    assert warnings(**of_segments, small_starts=120) == []  # lower-cased text
    (warning,) = warnings(**of_segments, open_ends=201)
    assert warning.startswith("201 segments (50.2%)") and "--sentences=sat" in warning
    assert warnings(broken_words=500) == []
    (warning,) = warnings(broken_words=501)
    assert warning.startswith("in 5.0% of the records")
    for number in (5, 6):
        documents = {"with_replacement_characters": number, "read": 1000}
        assert len(warnings(made_with(counts={"documents": documents}))) == number - 5


def test_sources():
    counts = [{"random_next": 1000, "random_next_other_source": n} for n in (100, 300)]
    few, many = (made_with(counts=each) for each in counts)
    assert warnings(few) == [] == warnings(made_with(counts={"random_next": 1000}))
    (warning,) = warnings(many)
    assert "30.0% of the random next pairs" in warning and "65.0%" in warning
    (warning,) = warnings(made_with(counts=counts[1], pairs="sop"))
    assert "30.0% of the swapped pairs" in warning
    # The advice was followed, as far as there are other documents of the source.
    assert warnings(dataclasses.replace(many, parameters={"random_next": "source"})) == []
    assert text_figures(None, 0, many)["random_next_other_source_share"] == 0.3
    assert text_figures(None, 0, made_with())["random_next_other_source_share"] is None


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


def test_what_a_run_shows(tmp_path, capsys):
    """Ten records to read, and planted faults of another folder."""
    generator = random.Random(3)
    texts = [prose(generator) for _ in range(90)]
    faulty = [prose(generator, 18) for _ in range(150)]
    faulty += [f"{prose(generator, 6)} & amp ; {prose(generator, 5)}" for _ in range(5)]
    faulty += ["bat " + "##s " * 12 for _ in range(12)]
    for name, of_folder in (("clean", texts), ("faulty", faulty)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
        serialized = [record(text, generator) for text in of_folder]
        for number in range(2):
            write(tmp_path / name / f"{number}.tfrecord", serialized[number::2])
    main([f"{tmp_path}/clean", f"{tmp_path}/faulty", f"--output={tmp_path}/report"])
    printed = capsys.readouterr().out
    found = json.loads((tmp_path / "report" / "verification.json").read_text())
    folder, of_faulty = found["folders"]
    assert len(folder["sample"]) == 10
    assert {shown["file"][-10:] for shown in folder["sample"]} == {"0.tfrecord", "1.tfrecord"}
    for shown in folder["sample"]:
        text = texts[(shown["number"] - 1) * 2 + int(shown["file"][-10])]
        assert shown["b"] == text
        hidden = next(w for w in text.split() if f"[MASK→{w}]" in shown["a"])
        assert shown["a"].replace(f"[MASK→{hidden}]", hidden) == text
        assert f"B: {text}" in printed
    assert not any("contain" in warning for warning in folder["warnings"])
    assert of_faulty["figures"]["entities_share"] == pytest.approx(5 / 167, abs=1e-6)
    for part in ("an HTML entity", "another language", "end without a mark"):
        assert any(part in warning for warning in of_faulty["warnings"]), part
