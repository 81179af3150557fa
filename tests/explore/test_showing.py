"""What the page shows, and who may ask for it."""

import gzip
import html
import pathlib
import re
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest
from support import record_files, untrained_models
from support.sample_text import WORDS
from support.tokenizer_kinds import ROBERTA, train
from tokenizers import Tokenizer

from beambert import cli
from beambert.errors import InputError
from beambert.explore import showing
from beambert.explore.command import PageServer, is_asked_here, page_of
from beambert.explore.material import Material
from beambert.explore.showing import SPANS, Masking, Pairs, Records
from beambert.model.objectives import MLM, RTD
from beambert.pipelines.records.contract import RecordsInfo
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary

PAPER = Masking()
DOCUMENTS = "The river. It was a city. A house.\n\nThe band played. It won. It ended."


def text_of(shown: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", shown)).split())


@pytest.fixture
def alone(folders):
    """The page without a model."""
    return Material(vocab_file=str(folders / "records" / "vocab.txt"))


def test_masking_shows_counts_and_the_models_answers(material, alone):
    shown = text_of(Masking(text="the river city music").show(material))
    assert "1 token to predict of 6" in shown and "mean loss" in shown
    without = text_of(Masking(text="the river").show(alone))
    assert "mean loss" not in without and "to predict" in without


def test_only_chosen_tokens_change(alone):
    framed = np.arange(40, 90, dtype=np.int32)
    shown, ways = showing.mask_text(alone, framed, PAPER)
    others = np.delete(np.arange(50), list(ways))
    assert len(ways) == round(0.15 * 50) and (shown[others] == framed[others]).all()
    lengths = []
    for seed in range(40):
        settings = Masking(masked_lm_prob=0.2, unit=SPANS, random_seed=seed)
        _, ways = showing.mask_text(alone, framed, settings)
        places = np.array(list(ways))
        lengths += [len(run) for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)]
    # Tokens that are chosen alone would make runs of 1.25 in the mean.
    assert np.mean(lengths) > 2.5


def test_answers_are_those_of_the_model(material):
    ids = material.token_ids
    framed = np.array([ids.classify, 10, 11, 12, ids.separate], np.int32)
    hidden = framed.copy()
    hidden[2] = ids.mask
    shown = text_of(showing._answers_at_masks(material, framed, hidden, [2]))
    ones = np.ones((1, 5), np.int32)
    features = {"input_ids": hidden[None], "input_mask": ones, "segment_ids": 0 * ones}
    features["masked_lm_positions"] = np.array([[2]])
    logits = np.array(material.model(features)["masked_lm_logits"])[0, 0].astype(float)
    loss = np.log(np.exp(logits).sum()) - logits[11]
    assert f"mean loss {loss:.2f}" in shown
    assert material.vocabulary.pieces[int(logits.argmax())] in shown


def test_pairs_tell_where_they_come_from(material, alone):
    for wanted, label in (("is next", "IsNext"), ("random next", "NotNext")):
        shown = text_of(Pairs(label=wanted).show(material))
        assert f"Label {label}" in shown and "The model is" in shown
    with pytest.raises(InputError, match="--label=is next: no pair has it"):
        Pairs(documents="One.\n\nTwo.", label="is next").show(alone)
    with pytest.raises(InputError, match="--documents: are less than two"):
        Pairs(documents="One. Two.").show(alone)


def test_the_row_is_that_of_the_record(alone):
    documents = showing.split_typed(DOCUMENTS)
    assert [len(sentences) for sentences in documents] == [3, 3]
    tokens, drawn, rows, counts = showing.make_pairs(alone, documents, 40, 0.0, seed=1)
    assert len(drawn) == counts.is_next + counts.random_next
    start, end, b_start, b_end, _ = drawn[0]
    ids, (a, b) = alone.token_ids, (tokens[start:end], tokens[b_start:b_end])
    expected = [ids.classify, *a, ids.separate, *b, ids.separate]
    assert rows["input_ids"][0, : len(expected)].tolist() == expected
    assert rows["segment_ids"][0].sum() == len(b) + 1


@pytest.mark.parametrize(
    ("objective", "lacks"), [(MLM, "next sentence prediction"), (RTD, "masked LM")]
)
def test_a_model_without_a_head_says_so(tmp_path, vocabulary, objective, lacks):
    untrained_models.save_encoder(tmp_path, vocabulary, objective)
    material = Material(model=str(tmp_path))
    masks = text_of(Masking(text="the river").show(material))
    pairs = text_of(Pairs(documents=DOCUMENTS, max_seq_length=16).show(material))
    assert f"This model has no head for {lacks}" in masks + pairs
    assert "to predict" in masks and "Label" in pairs


def test_records_are_browsed(material, tmp_path):
    shown = Records().show(material)
    assert "Record 1 of part-0.tfrecord: is next (0)" in text_of(shown)
    assert 'href="?folder=1&amp;file=1&amp;record=6"' in shown
    shown = Records(record=11).show(material)
    assert 'href="?folder=1&amp;file=2&amp;record=1"' in shown
    assert text_of(shown).count("Record 1") == 3
    assert "Record 1 of part-1.tfrecord" in text_of(Records(folder=7, file=9).show(material))


def test_records_are_found_by_their_numbers(tmp_path, vocabulary):
    records = [record_files.changed(next_sentence_labels=[n % 2]) for n in range(9)]
    plain = pathlib.Path(record_files.write(tmp_path / "a.tfrecord", records)).read_bytes()
    (tmp_path / "b.tfrecord").write_bytes(gzip.compress(plain))
    damaged = bytearray(plain)
    damaged[-9] ^= 1
    (tmp_path / "c.tfrecord").write_bytes(damaged)
    (tmp_path / "vocab.txt").write_bytes(vocabulary.serialize())
    material = Material(str(tmp_path))
    for first in (1, 5, 9, 21):
        of_plain, of_gzip = (text_of(Records(file=n, record=first).show(material)) for n in (1, 2))
        assert of_plain.replace("a.tfrecord", "b.tfrecord") == of_gzip
        assert (f"Record {first} of" in of_plain) == (first < 10)
    assert "Record 4 of c" in text_of(Records(file=3).show(material))
    with pytest.raises(InputError, match="c.tfrecord: "):
        Records(file=3, record=6).show(material)


@pytest.mark.parametrize(
    ("pairs", "heading"),
    [("sop", "Record 1 of a.tfrecord: swapped (1)"), ("none", "Record 1 of a.tfrecord 7 of 12")],
)
def test_records_of_other_pairs(tmp_path, vocabulary, pairs, heading):
    """The label in the words of their kind, or no label, and [SEP] between documents."""
    record = record_files.PACKED if pairs == "none" else record_files.RECORD
    file = record_files.write(tmp_path / "a.tfrecord", [record] * 9)
    parameters = {"pairs": pairs, "max_seq_length": 12, "max_predictions_per_seq": 4}
    size = pathlib.Path(file).stat().st_size
    info = RecordsInfo(
        parameters | {"masked_lm_prob": 0.15, "dupe_factor": 1},
        {"size": len(vocabulary), "sha256": vocabulary.sha256},
        inputs=[],
        files=[{"name": "a.tfrecord", "instances": 9, "bytes": size, "sha256": ""}],
        counts={"documents": {"used": 3}},
        versions={},
    )
    (tmp_path / "info.json").write_text(info.to_json())
    (tmp_path / "vocab.txt").write_bytes(vocabulary.serialize())
    (tmp_path / "_SUCCESS").touch()
    material = Material(str(tmp_path))
    assert heading in text_of(Records().show(material))


@pytest.mark.parametrize("typed", ["<script>alert(1)</script> river", '"><img src=x onerror=a(1)>'])
def test_typed_text_is_never_html(material, alone, typed):
    documents = f"{typed}. {typed}.\n\n{typed}. {typed}."
    for page in (material, alone):
        for shown in (
            page_of(page, "masking", {"text": typed}),
            page_of(page, "pairs", {"documents": documents, "label": typed}),
            page_of(page, "pairs", {typed: typed}),
            showing.bars([(typed, 0.5)]) + showing.pieces([showing.Piece(typed, under=typed)]),
        ):
            assert not re.search(r"<(script|img)", shown, re.I), shown


def refusal(capsys, *arguments) -> str:
    assert cli.run(["explore", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_refusals(folders, capsys, tmp_path):
    records = folders / "records"
    assert "--vocab_file: missing" in refusal(capsys)
    assert f"--records={tmp_path}/none:" in refusal(capsys, f"--records={tmp_path}/none")
    assert "--model=" in refusal(capsys, "--model", records)
    assert "is a fine-tuned model" in refusal(capsys, "--model", folders / "classifier")


@pytest.mark.parametrize("word", ["river", "River"])
def test_the_case_follows_from_the_vocabulary(tmp_path, word):
    vocabulary = Vocabulary((*SPECIAL_TOKENS, word, "city"))
    (tmp_path / "vocab.txt").write_bytes(vocabulary.serialize())
    assert Material(vocab_file=str(tmp_path / "vocab.txt")).do_lower_case == word.islower()


@pytest.mark.parametrize(
    ("host", "origin", "is_here"),
    [
        ("127.0.0.1:7860", None, True),
        ("localhost:7860", "http://localhost:7860", True),
        ("[::1]:7860", "http://[::1]:7860", True),
        ("192.168.0.7:7860", None, True),
        ("page.lan:7860", None, True),
        ("evil.example:7860", None, False),
        ("evil.example:7860", "http://evil.example:7860", False),
        ("127.0.0.1:7860", "http://evil.example", False),
        ("127.0.0.1:7860", "null", False),
        ("", None, False),
        ("[::1", None, False),
        ("localhost", "http://[", False),
    ],
)
def test_only_requests_for_this_page_are_answered(host, origin, is_here):
    """A page elsewhere that gives its name this machine's address keeps its name in Host."""
    headers = {"Host": host} | ({"Origin": origin} if origin else {})
    assert is_asked_here(headers, "page.lan") == is_here


@pytest.fixture(scope="module")
def address(material):
    server = PageServer(material, "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with server:
        assert "loads" in ask(server.address).read().decode()
        server.is_loaded = True
        yield server.address
        server.shutdown()


def ask(address: str, **headers: str):
    return urllib.request.urlopen(urllib.request.Request(address, headers=headers))


@pytest.mark.parametrize(
    ("path", "shows"),
    [
        ("", "to predict of"),
        ("masking?text=river+river+river+river&masked_lm_prob=0.5", "3 tokens to predict of 6"),
        ("masking?text=", "--text: has no word"),
        ("masking?masked_lm_prob=2", "--masked_lm_prob=2.0: must be more than 0"),
        ("masking?of=", "--of=: no such flag"),
        (f"records?record={10**20}", "--record=1"),
        ("pairs", "documents gave"),
        ("pairs?label=is+next&pair=2", "Label IsNext"),
        ("records", "Record 1 of part-0"),
        ("records?folder=1&file=2&record=6", "Record 6 of part-1"),
    ],
)
def test_the_page_shows_what_a_form_asks_for(address, path, shows):
    answer = ask(address + path)
    page = answer.read().decode()
    assert shows in html.unescape(page)
    # Each control has its label around it, and what was given in it.
    controls = re.findall(r"<label[^>]*>\w+<(?:select|input|textarea) name=\"\w+\"", page)
    assert len(controls) == page.count("<label") > 0
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("", {"Host": "evil.example"}, 403),
        ("", {"Origin": "http://evil.example"}, 403),
        *((path, {}, 404) for path in ("file=/etc/passwd", "../../etc/passwd", "%2e%2e/setup.py")),
    ],
)
def test_nothing_else_is_served(address, path, headers, status):
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(address + path, **headers)
    assert refused.value.code == status


def test_a_port_in_use_is_refused(address, folders, capsys):
    port = address.rstrip("/").rpartition(":")[2]
    vocabulary = folders / "records" / "vocab.txt"
    assert f"--port={port}: cannot be used" in refusal(
        capsys, f"--vocab_file={vocabulary}", f"--port={port}"
    )


def test_the_page_of_a_byte_level_bpe(tmp_path):
    folder = tmp_path / ROBERTA
    folder.mkdir()
    train(ROBERTA, [" ".join(WORDS)] * 3, 330).save(str(folder / "tokenizer.json"))
    material = Material(tokenizer=str(folder))
    text = "the river ended in the village"
    ids, _ = material.tokenizer.tokenize_batch([text])
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert ids.tolist() == reference.encode(text, add_special_tokens=False).ids
    assert material.token_ids.mask == reference.token_to_id("<mask>")
    page = Masking(text=text).show(material)
    assert "[MASK]" in page and "Ġ" not in page
