"""Sentences that a SaT model finds: a stand-in of the package, and the package on a tiny graph."""

import json
import sys
import types
from collections import Counter

import numpy as np
import pytest

from beambert.errors import InputError
from beambert.pipelines.corpus.documents import Document
from beambert.pipelines.create_pretraining_data import main
from beambert.pipelines.text import sentence_model, sentences
from beambert.pipelines.text.preparation import SAT, TextOptions, TextSettings, prepare_documents
from beambert.pipelines.text.sentence_model import FILES, SentenceModel
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS

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
