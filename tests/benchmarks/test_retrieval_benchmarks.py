"""The benchmarks of embeddings and of search at their smallest size."""

import json
import pathlib

import pytest
from support.benchmark_runs import measured
from support.sample_text import WORDS

from benchmarks import retrieval

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.release
def test_embedding(tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("a river, a road\nthe lazy dog\n" * 4)
    folder = ROOT / "tests" / "trainer" / "golden_sentences" / "mean"
    flags = [f"--model={folder}", f"--input={texts}", "--texts=6", "--repeats=1"]
    result = measured("embedding", *flags, results=tmp_path / "results.json")
    assert result["texts"] == 6 and result["texts_per_second"]["beambert"] > 0


@pytest.mark.release
def test_weights_of_8_bits(tmp_path):
    pytest.importorskip("tf2onnx", reason="tf2onnx is not installed (the extra onnx)")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    data = tmp_path / "dev.tsv"
    data.write_text("sentence1\tsentence2\tscore\na river\ta road\t1\na dog\tthe lazy dog\t4\n")
    folder = ROOT / "tests" / "trainer" / "golden_sentences" / "mean"
    flags = [f"--model={folder}", f"--data={data}", "--max_seq_length=8", "--repeats=1"]
    ways = measured("int8", *flags, results=tmp_path / "results.json")["ways"]
    assert list(ways) == ["tensorflow", "onnxruntime", "onnxruntime, int8"]
    assert ways["onnxruntime"]["spearman"] == ways["tensorflow"]["spearman"]


@pytest.mark.release
def test_retrieval(tmp_path):
    """Each question has the words of its paragraph."""
    paragraphs = [
        {"context": f"the {word} is here", "qas": [{"question": f"where is the {word}"}]}
        for word in WORDS[:12]
    ]
    squad = tmp_path / "squad.json"
    squad.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    folder = ROOT / "tests" / "trainer" / "golden_sentences" / "mean"
    flags = [f"--squad={squad}", f"--model={folder}"]
    result = measured("retrieval", *flags, results=tmp_path / "results.json")
    assert (result["paragraphs"], result["questions"]) == (12, 12)
    assert result["measures"]["words"]["MRR@10"] == 1
    assert result["measures"].keys() == {"words", "vectors", "both"}


def test_pairs_of_squad(tmp_path):
    """The last three articles are for dev; each paragraph of the others is one passage."""
    articles = [
        {
            "paragraphs": [{"context": f"of {n}", "qas": [{"question": " a "}, {"question": "b"}]}]
            * 2
        }
        for n in range(4)
    ]
    counts = retrieval.write_pairs(articles, str(tmp_path))
    assert counts == {"train": 4, "passages": 1, "dev": 12}
    passages, train = ((tmp_path / f"{each}.jsonl").read_text() for each in ("passages", "train"))
    assert [json.loads(line) for line in passages.splitlines()] == [{"text": "of 0"}]
    assert json.loads(train.splitlines()[0]) == {"text": "a", "text_b": "of 0"}


@pytest.mark.release
def test_an_index_beside_all_vectors(tmp_path):
    """The second one is drawn like the first."""
    pytest.importorskip("usearch", reason="usearch is not installed (the extra index)")
    size = ["--passages=3000", "--queries=20"]
    for name, like in (("a", ["--width=16"]), ("b", [f"--like={tmp_path / 'a/embeddings'}"])):
        flags = [f"--output={tmp_path / name}", *size, *like]
        result = measured("vector_index", *flags, results=tmp_path / "results.json")
        assert (result["passages"], result["width"]) == (3000, 16)
        assert result["recall_at_10"] > 0.95
        assert result["milliseconds"].keys() == {"vectors", "words", "both"}
