"""What the tabs show, as HTML without a browser."""

import html
import pathlib
import re

import pytest
from support import record_files, untrained_models

from beambert.explore import browsing, drawing, playgrounds
from beambert.explore.instances import PAPER
from beambert.explore.material import NO_MODEL, Material
from beambert.model.objectives import MLM, RTD
from beambert.pipelines.records.contract import RecordsInfo

SCRIPT = "<script>alert(1)</script> river"
DOCUMENTS = "The river. It was a city. A house.\n\nThe band played. It won. It ended."


def text_of(shown: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", shown))


def test_masking_shows_counts_and_the_models_answers(material):
    shown = playgrounds.show_masking(material, "encoder", "the river city music", PAPER)
    said = text_of(shown)
    assert "1 token to predict of 6" in said and "mean loss" in said
    without = text_of(playgrounds.show_masking(material, NO_MODEL, "the river", PAPER))
    assert "mean loss" not in without and "to predict" in without


def test_pairs_tell_where_they_come_from(material):
    for wanted, label in (("is next", "IsNext"), ("random next", "NotNext")):
        seeds = range(8)
        shown = [
            text_of(playgrounds.show_pairs(material, "encoder", DOCUMENTS, 16, 0.0, s, wanted, 1))
            for s in seeds
        ]
        assert any(f"Label {label}" in one for one in shown)
    alone = playgrounds.show_pairs(material, NO_MODEL, "One. Two.", 16, 0.0, 1, "any", 1)
    assert "at least two documents" in text_of(alone)


def test_a_model_without_the_head_says_so(tmp_path, vocabulary):
    """Masked LM alone: everything else on the page works."""
    (tmp_path / "mlm").mkdir()
    untrained_models.save_encoder(tmp_path / "mlm", vocabulary, MLM)
    material = Material(models=[str(tmp_path / "mlm")])
    told = "This model has no head for next sentence prediction"
    said = text_of(playgrounds.show_pairs(material, "mlm", DOCUMENTS, 16, 0.0, 1, "any", 1))
    assert told in said and "Label" in said and "The model is" not in said
    assert "mean loss" in text_of(playgrounds.show_masking(material, "mlm", "the river", PAPER))


def test_a_discriminator_fills_no_masks(tmp_path, vocabulary):
    (tmp_path / "rtd").mkdir()
    untrained_models.save_encoder(tmp_path / "rtd", vocabulary, RTD)
    material = Material(models=[str(tmp_path / "rtd")])
    told = "This model has no head for masked LM"
    said = text_of(playgrounds.show_masking(material, "rtd", "the river", PAPER))
    assert told in said and "to predict" in said


def test_records_are_browsed_and_counted(material):
    folder = next(iter(material.browsers()))
    of = (folder, browsing.ANY, 0, 99, False, "")
    shown, then = browsing.show_records(material, *of, (0, 0))
    assert then == (0, 5) and "Record 1 of part-0.tfrecord" in text_of(shown)
    shown, _ = browsing.show_records(material, *of, (0, 298))
    assert "Record 1 of part-1.tfrecord" in text_of(shown)


@pytest.mark.parametrize(
    ("pairs", "heading"),
    [("sop", "Record 1 of a.tfrecord: swapped (1)"), ("none", "Record 1 of a.tfrecord 7 of 12")],
)
def test_records_of_other_pairs(tmp_path, vocabulary, pairs, heading):
    """The label in the words of their kind, or no label, and [SEP] between documents."""
    record = record_files.PACKED if pairs == "none" else record_files.RECORD
    file = record_files.write(tmp_path / "a.tfrecord", [record] * 9)
    content = pathlib.Path(file).read_bytes()
    parameters = {"pairs": pairs, "max_seq_length": 12, "max_predictions_per_seq": 4}
    info = RecordsInfo(
        parameters | {"masked_lm_prob": 0.15, "dupe_factor": 1},
        {"size": len(vocabulary), "sha256": vocabulary.sha256},
        inputs=[],
        files=[{"name": "a.tfrecord", "instances": 9, "bytes": len(content), "sha256": ""}],
        counts={"documents": {"used": 3}},
        versions={},
    )
    (tmp_path / "info.json").write_text(info.to_json())
    (tmp_path / "vocab.txt").write_bytes(vocabulary.serialize())
    (tmp_path / "_SUCCESS").touch()
    material = Material(str(tmp_path), [])
    folder = next(iter(material.browsers()))
    shown = browsing.show_records(material, folder, browsing.ANY, 0, 99, False, "", (0, 0))[0]
    assert heading in " ".join(text_of(shown).split())
    chosen = browsing.show_records(material, folder, browsing.FIRST, 0, 99, False, "", (0, 0))[0]
    assert "0 records shown" in text_of(chosen)


def shown_with(material, typed):
    """Everything that shows typed text."""
    folder = next(iter(material.browsers()))
    documents = f"{typed}. {typed}.\n\n{typed}. {typed}."
    for name in ("encoder", NO_MODEL):
        yield playgrounds.show_masking(material, name, typed, PAPER)
        yield playgrounds.show_pairs(material, name, documents, 16, 0.1, 1, "any", 1)
    yield browsing.show_records(material, folder, browsing.ANY, 0, 99, False, typed, (0, 0))[0]
    yield drawing.refused(ValueError(typed))
    yield drawing.bars([(typed, 0.5)])
    yield drawing.pieces([drawing.Piece(typed, under=typed)])


@pytest.mark.slow
@pytest.mark.parametrize("typed", [SCRIPT, '"><img src=x onerror=alert(1)>'])
def test_typed_text_is_never_html(material, typed):
    for shown in shown_with(material, typed):
        assert not re.search(r"<(script|img|/div><b)", shown, re.I), shown
        assert typed not in shown


def test_tokens_of_a_vocabulary_are_never_html(tmp_path, vocabulary):
    tokens = [*vocabulary.tokens, "<script>", "<", "script", ">"]
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    material = Material(vocab_file=str(tmp_path / "vocab.txt"))
    shown = playgrounds.show_masking(material, NO_MODEL, "<script> a", PAPER)
    assert "<script" not in shown and "script" in shown
