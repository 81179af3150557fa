"""What verify says of the text: ten records to read, and warnings just above each threshold."""

import dataclasses
import json
import random

import pytest
from support.record_files import serialize, write

from beambert.pipelines.records.contract import RecordsInfo
from beambert.pipelines.records.figures import MadeWith
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS
from beambert.pipelines.verification.artefacts import ArtefactCounts, text_figures, text_warnings
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


def prose(generator, words) -> str:
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
