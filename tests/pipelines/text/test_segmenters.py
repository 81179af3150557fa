"""Segmenters of words, and models of sentences."""

import json
import sys
import types
from collections import Counter
from unittest import mock

import numpy as np
import pytest

from beambert.errors import InputError
from beambert.pipelines.corpus.documents import Document
from beambert.pipelines.create_pretraining_data import main
from beambert.pipelines.text import sentence_model, sentences
from beambert.pipelines.text.preparation import SAT, TextOptions, TextSettings, prepare_documents
from beambert.pipelines.text.sentence_model import FILES, SentenceModel
from beambert.pipelines.text.sentences import (
    BEGINS,
    BY_VOCABULARY,
    check_segmenter,
    mark_words,
    segmenter_notes,
)
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS


def words(text: str, name: str) -> list[str]:
    """The text with a space before each word that a segmenter finds; others stay as they are."""
    codes = mark_words([text], name)
    pairs = zip(text, codes.tolist(), strict=True)
    shown = ("|" * (code == BEGINS) + character for character, code in pairs)
    return "".join(shown).removeprefix("|").split("|")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("icu", "我们|在|北京|大学|学习|自然|语言|处理"),
        ("icu", "我們|在|臺灣大學|學習"),
        ("icu", "ฉัน|ไป|ตลาด"),
        ("icu", "ຂ້ອຍ|ໄປ|ຕະຫຼາດ"),
        ("icu", "ខ្ញុំ|ទៅ|ផ្សារ"),
        ("sudachi", "私|は|東京|の|大学|で|日本|語|を|学ん|で|い|ます"),
        ("sudachi", "リンゴ|を|食べ|まし|た"),
    ],
)
def test_words(name, text):
    assert words(text.replace("|", ""), name) == text.split("|")


def test_other_scripts_are_left_to_the_vocabulary():
    text = "Tokyo 2020 は 😀東京 で。ok"
    codes = mark_words(["a b", text], "icu")
    assert (codes[:3] == BY_VOCABULARY).all()
    shown = "".join(c for c, code in zip(text, codes[3:], strict=True) if code != BY_VOCABULARY)
    assert shown == "は東京で"


@pytest.mark.parametrize("name", ["icu", "sudachi"])
def test_places_are_counted_in_characters(name):
    """Libraries count in halves of UTF-16 or in bytes; the words behind an emoji are the same."""
    plain, behind = mark_words(["東京に行く"], name), mark_words(["😀𠮷😀東京に行く"], name)
    assert behind[-5:].tolist() == plain.tolist()
    assert mark_words(["", "\ud800東京に行く", ""], name)[-5:].tolist() == plain.tolist()


def test_sudachi_takes_texts_of_any_length():
    text = "東京に行く。" * 4000
    with mock.patch.object(sentences, "_CHARACTERS_AT_A_TIME", 600):
        cut = mark_words([text], "sudachi")
    assert cut.tolist() == mark_words(["東京に行く。"], "sudachi").tolist() * 4000


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (
            ("icu", "en", "", True),
            "--segmenter=icu: knows the words of zh, ja, .* --language=en",
        ),
        (("icu", "zh", "", False), "--segmenter=icu: has an effect only on .* add --masks="),
    ],
)
def test_what_has_no_effect_is_refused(given, error):
    with pytest.raises(InputError, match=f"^{error}"):
        check_segmenter(*given)


def test_the_note_about_words_that_nobody_finds():
    chinese, german = "人人生而自由，在尊严和权利上一律平等。", "Alle Menschen sind frei geboren."
    (note,) = segmenter_notes([chinese, german[:9]], "none", True)
    assert note.startswith("masks: no spaces separate") and "--segmenter" in note
    assert segmenter_notes([german, chinese[:5]], "none", True) == []
    assert segmenter_notes([chinese], "none", False) == []
    assert segmenter_notes([chinese], "icu", True) == segmenter_notes([], "none", True) == []


WORDS = [f"{a}{b}" for a in "bcdfgklm" for b in ("at", "en", "ol", "ub", "ir")]
# The word behind which the models here end a sentence.
END = "stop"
CONFIG = {"model_type": "xlm-token", "lookahead": 48, "id2label": {"0": "LABEL_0"}}


@pytest.fixture
def folder(tmp_path):
    """A model's folder with a tokenizer of a few words; the graph is no graph."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    names = ("<s>", "</s>", "<pad>", "<unk>", "<mask>", END, *WORDS)
    tokenizer = Tokenizer(
        models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    path = tmp_path / "sat"
    path.mkdir()
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "config.json").write_text(json.dumps(CONFIG))
    (path / FILES[0]).write_bytes(b"a graph")
    sentence_model._load.cache_clear()
    return path


class StandIn:
    """The package's class, as version 0.2 has it, ending a sentence behind the white space."""

    def __init__(self, model, tokenizer, ort_providers, ort_kwargs):
        self.model, self.calls = model, []

    def split(self, text, threshold, stride):
        text.encode()
        self.calls.append(len(text))
        parts, start = [], 0
        while (at := text.find(END, start)) >= 0:
            end = at + len(END)
            end += len(text[end:]) - len(text[end:].lstrip())
            parts.append(text[start:end])
            start = end
        return [*parts, text[start:]] if text[start:] else parts


@pytest.fixture
def package(monkeypatch):
    monkeypatch.setitem(sys.modules, "wtpsplit_lite", types.SimpleNamespace(SaT=StandIn))
    onnxruntime = types.SimpleNamespace(SessionOptions=types.SimpleNamespace)
    monkeypatch.setitem(sys.modules, "onnxruntime", onnxruntime)


def split(text: str, model: SentenceModel) -> list[str]:
    options = TextOptions(finds_unspaced=True, model=model)
    counts: Counter[str] = Counter()
    prepared = prepare_documents([Document(text)], options, counts)
    return prepared[0].sentences if prepared else []


def test_sentences_without_marks(package, folder, monkeypatch):
    model = SentenceModel.of(str(folder))
    assert model.threshold == 0.25 and len(model.sha256) == 64
    text = f"bat ben {END} bol\nbub {END}  bir\n\n\ud800cat {END} cen"
    assert split(text, model) == [
        *(f"bat ben {END}", "bol", f"bub {END}", "bir", f"\ud800cat {END}", "cen"),
    ]
    assert split("…\n- -", model) == ["…", "- -"]
    assert split(" \n", model) == []
    # What is long is given to the model piece by piece, with the same sentences.
    lines = [f"bat {END} ben"] * 20
    whole = split("\n".join(lines), model)
    splitter = sentence_model._load(model)
    splitter.calls.clear()
    monkeypatch.setattr(sentences, "LONGEST_PARAGRAPH", 30)
    assert split("\n".join(lines), model) == whole and len(whole) == 40
    assert len(splitter.calls) == 10 and max(splitter.calls) <= 32


def test_a_model_that_changes_is_refused(package, folder):
    model = SentenceModel.of(str(folder))
    (folder / FILES[0]).write_bytes(b"another graph")
    assert SentenceModel.of(str(folder)).sha256 != model.sha256
    with pytest.raises(InputError, match="--sentence_model="):
        model.split("bat")


@pytest.mark.parametrize(
    ("config", "threshold"),
    [
        ({"id2label": {str(i): "x" for i in range(111)}}, 0.025),
        ({"id2label": {str(i): "x" for i in range(111)}, "lookahead": None}, 0.01),
    ],
)
def test_thresholds(package, folder, config, threshold):
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    assert SentenceModel.of(str(folder)).threshold == threshold


def test_refusals(package, folder, monkeypatch):
    for settings, flag in (
        ({"sentences": SAT}, "--sentences=sat: "),
        ({"sentence_model": "sat"}, "--sentence_model=sat: "),
    ):
        with pytest.raises(InputError, match=flag):
            TextSettings(**settings).check_text()
    TextSettings(sentences=SAT, sentence_model=str(folder)).check_text()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "wtpsplit_lite", None)
        with pytest.raises(InputError, match="--sentences=sat: needs wtpsplit-lite"):
            SentenceModel.of(str(folder))
    (folder / FILES[0]).write_bytes(b"a graph\x08location\x12\x06w.data")  # as ONNX writes it
    with pytest.raises(InputError, match="has weights in other files"):
        SentenceModel.of(str(folder))
    (folder / "config.json").write_text("{}")
    with pytest.raises(InputError, match="is not a SaT model"):
        SentenceModel.of(str(folder))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"has no tokenizer\.json"):
        SentenceModel.of(str(folder))


def test_the_package_makes_records(folder, tmp_path):
    """A graph whose logit is high for one word; records as of text that was split by hand."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed (the extra onnx)")
    pytest.importorskip("wtpsplit_lite", reason="wtpsplit-lite is not installed (the extra sat)")
    helper, kinds = onnx.helper, onnx.TensorProto
    logits = np.full((6 + len(WORDS), 1), -9, np.float16)
    logits[5] = 9
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["scores"]),
            helper.make_node("Unsqueeze", ["attention_mask", "axis"], ["mask"]),
            helper.make_node("Mul", ["scores", "mask"], ["logits"]),
        ],
        "tiny",
        [
            helper.make_tensor_value_info("input_ids", kinds.INT64, ["n", "l"]),
            helper.make_tensor_value_info("attention_mask", kinds.FLOAT16, ["n", "l"]),
        ],
        [helper.make_tensor_value_info("logits", kinds.FLOAT16, ["n", "l", 1])],
        [
            onnx.numpy_helper.from_array(logits, "table"),
            onnx.numpy_helper.from_array(np.array([2]), "axis"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / FILES[0])
    generator = np.random.default_rng(1)
    documents = [
        [" ".join([*generator.choice(WORDS, 9), END]) for _ in range(200)] for _ in range(12)
    ]
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join([*SPECIAL_TOKENS, END, *WORDS]) + "\n")
    found = []
    for name, separator, flags in (
        ("text", " ", [f"--sentences={SAT}", f"--sentence_model={folder}"]),
        ("lines", "\n", ["--layout=sentences"]),
    ):
        rows = (json.dumps({"text": separator.join(each)}) for each in documents)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
        main(
            [
                *(f"--input={tmp_path}/{name}.jsonl", "--format=jsonl", "--num_shards=1"),
                *(f"--vocab_file={vocabulary}", f"--output={tmp_path}/{name}", *flags),
            ]
        )
        info = json.loads((tmp_path / name / "info.json").read_text())
        found.append((info["files"][0]["sha256"], info["counts"]["instances"]))
    assert found[0] == found[1] and found[0][1] > 100
    given = json.loads((tmp_path / "text" / "info.json").read_text())
    assert given["parameters"]["sentence_model"] == SentenceModel.of(str(folder)).to_json()
    assert "wtpsplit-lite" in given["versions"]
