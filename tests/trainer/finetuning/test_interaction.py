"""Late interaction beside ColBERT's own code and torch, and scores beside loops."""

import json
import pathlib

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from beambert.model.sentence_encoder import TokenEncoder
from beambert.pipelines.tasks import late_interaction as interaction
from beambert.pipelines.tasks.late_interaction import LateInteraction, best_by_interaction
from beambert.pipelines.tasks.texts import InteractionFeatures, markers_of
from beambert.pipelines.tasks.vectors import VectorExample
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer.tasks.late_interaction import max_sim
from beambert.trainer.tasks.vectors import contrast
from beambert.trainer.weights.initial import open_initial

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden_interaction.json").read_text())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """ColBERT's checkpoint, read from its files."""
    folder = tmp_path_factory.mktemp("colbert")
    weights = {
        name: np.array(value, np.int64 if name.endswith("position_ids") else np.float32)
        for name, value in GOLDEN["weights"].items()
    }
    safetensors.numpy.save_file(weights, folder / "model.safetensors")
    (folder / "vocab.txt").write_text("\n".join(GOLDEN["vocabulary"]) + "\n")
    config = {
        "model_type": "bert",
        "vocab_size": len(GOLDEN["vocabulary"]),
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "max_position_embeddings": GOLDEN["max_seq_length"],
    }
    (folder / "config.json").write_text(json.dumps(config))
    initial = open_initial(str(folder), "--init")
    model = TokenEncoder(initial.config)
    assert initial.load_into(model, "--init") == []
    return model


@pytest.fixture(scope="module")
def features():
    lengths = GOLDEN["max_seq_length"], GOLDEN["query_length"]
    return InteractionFeatures(Vocabulary(tuple(GOLDEN["vocabulary"])), True, *lengths)


def test_queries_are_colberts(model, features):
    """Their ids, what they attend to, and the vectors of all tokens, [MASK] included."""
    found = features.expanded(features.queries(GOLDEN["queries"]))
    np.testing.assert_array_equal(found["input_ids"], GOLDEN["query_ids"])
    np.testing.assert_array_equal(found["input_mask"], GOLDEN["query_mask"])
    vectors = model(found)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=2), 1, atol=1e-5)
    np.testing.assert_allclose(vectors[..., :6], GOLDEN["query_vectors"], atol=1e-5)


def test_documents_are_colberts(model, features):
    """Their ids, which tokens count, and the vectors of those."""
    found = features.documents(GOLDEN["documents"])
    longest = len(GOLDEN["document_ids"][0])
    np.testing.assert_array_equal(found["input_ids"][:, :longest], GOLDEN["document_ids"])
    counts = features.counting(found)
    np.testing.assert_array_equal(counts[:, :longest], GOLDEN["counts"])
    assert not counts[:, longest:].any()
    vectors = model(found).numpy()[..., :6]
    expected = np.array(GOLDEN["document_vectors"])
    where = counts[:, :longest]
    np.testing.assert_allclose(vectors[:, :longest][where], expected[where], atol=1e-5)


def test_scores_are_colberts(model, features, monkeypatch):
    """Also where documents are computed in several parts."""
    monkeypatch.setattr(interaction, "_TOKENS_AT_A_TIME", 7)
    queries = model(features.expanded(features.queries(GOLDEN["queries"])))
    documents = features.documents(GOLDEN["documents"])
    vectors, counts = model(documents), features.counting(documents)
    np.testing.assert_allclose(max_sim(queries, vectors, counts), GOLDEN["scores"], atol=1e-4)
    kept = [vector[where] for vector, where in zip(vectors.numpy(), counts, strict=True)]
    found = interaction.max_sim(queries.numpy(), kept)
    np.testing.assert_allclose(found, GOLDEN["scores"], atol=1e-4)


@pytest.mark.parametrize("case", GOLDEN["losses"], ids=["pairs", "two negatives"])
def test_losses_and_gradients_are_torchs(case):
    queries, documents = tf.Variable(case["queries"]), tf.Variable(case["documents"])
    counts = tf.constant(case["counts"]) > 0
    texts = 1 + len(case["documents"]) // 5
    ids = tf.reshape(tf.range(5 * texts, dtype=tf.int64), [5, texts])
    with tf.GradientTape() as tape:
        scores = max_sim(queries, documents, counts)
        losses, _ = contrast(scores / case["temperature"], ids, tf.ones(5))
        loss = tf.reduce_mean(losses)
    np.testing.assert_allclose(scores, case["scores"], atol=1e-5)
    assert float(loss) == pytest.approx(case["loss"], abs=1e-5)
    for found, expected in zip(
        tape.gradient(loss, (queries, documents)), case["gradients"], strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def ragged(random, counts, width=5):
    found = [random.normal(size=(count, width)) for count in counts]
    return [each / np.linalg.norm(each, axis=1, keepdims=True) for each in found]


def by_hand(query, document):
    return sum(max(float(token @ other) for other in document) for token in query)


def test_the_best_documents_are_found():
    """Each text once, and no query itself, as by the vectors of whole texts."""
    random = np.random.default_rng(2)
    ids = np.array([[1, 10, 11], [2, 12, 10], [3, 13, 1]])
    queries = np.stack(ragged(random, [4] * 3))
    documents = ragged(random, [3, 5, 2, 3, 6, 4])
    documents[3] = documents[0]  # Both are the text 10.
    found = best_by_interaction(ids, queries, documents)
    of_text = {10: documents[0], 11: documents[1], 12: documents[2], 13: documents[4]}
    of_text[1] = documents[5]
    for row, query in enumerate(queries):
        ranked = sorted(of_text, key=lambda text: -by_hand(query, of_text[text]))
        if row == 0:  # The query is the text 1 itself, which stands at the end then.
            ranked = [text for text in ranked if text != 1] + [1]
        assert found[row].tolist() == ranked


def test_markers_of_vocabularies(vocabulary):
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    cased = Vocabulary(("[PAD]", "[unused1]", "[unused2]", *special[1:]))
    assert markers_of(cased) == (1, 2)
    for without in (Vocabulary(special), Vocabulary((*special, "[unused0]"))):
        assert markers_of(without) == (special.index("[MASK]"), special.index("[SEP]"))


@pytest.mark.slow
def test_what_is_cut_is_counted(features):
    """A query has less room than a document: [CLS], [Q], [SEP] and six pieces of nine tokens."""
    fits, cut = "the river of the end is", "the river of the end is the"
    longest = " ".join(["river"] * 11)
    examples = [
        VectorExample(text, text_b, None, {})
        for text, text_b in ((fits, longest), (cut, "a"), (cut, f"{longest} end"))
    ]
    arguments = examples, [], features
    made = LateInteraction.features(*arguments)
    assert made.lengths.tolist() == [9, 14, 9, 4, 9, 14]
    assert LateInteraction.count_cut(*arguments, made) == 3
