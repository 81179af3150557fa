"""Makes golden_interaction.json: ColBERT's ids, vectors, scores, and a loss with its gradients.

    python make_golden_interaction.py golden_interaction.json

A model with random weights is written as a checkpoint of ColBERT and read by its own classes. The
JSON has the weights by the names of that checkpoint, the ids and masks of some texts, the first
components of their vectors, and the scores of all pairs. Besides, it has the cross-entropy of the
right documents of random vectors, and its gradients by torch.
Needs torch, transformers and colbert-ai (made with 2.15.0, 4.49.0 and 0.2.22), which the tests do
not.
"""

import json
import pathlib
import sys
import tempfile

import safetensors.torch
import torch
import transformers
from colbert.infra import ColBERTConfig
from colbert.modeling.checkpoint import Checkpoint
from colbert.modeling.colbert import colbert_score
from colbert.modeling.tokenization import DocTokenizer, QueryTokenizer

VOCABULARY = (
    *("[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ",", ".", "?", "-"),
    *("the", "a", "river", "city", "##s", "end", "of", "where", "is", "house"),
)
QUERY_LENGTH, LENGTH, KEPT = 9, 14, 6
QUERIES = ("Where is the river?", "a house", "the end of the rivers of the city of the house")
DOCUMENTS = (
    "The river ends, the city-house. The end?",
    "A house.",
    "river - river, river. A city of the river, of the house of the end",
)


def write_checkpoint(folder: pathlib.Path, dim: int = 128) -> dict[str, torch.Tensor]:
    """Writes a checkpoint with random weights; returns them."""
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=LENGTH,
    )
    torch.manual_seed(1)
    encoder = transformers.BertModel(config, add_pooling_layer=False)
    weights = {f"bert.{name}": value for name, value in encoder.state_dict().items()}
    weights["linear.weight"] = torch.zeros(dim, config.hidden_size)
    for name, value in weights.items():
        if value.is_floating_point():
            # Few digits make a small file.
            weights[name] = torch.round(value + 0.5 * torch.randn(value.shape), decimals=2)
    config.architectures = ["HF_ColBERT"]
    config.save_pretrained(folder)
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCABULARY))
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=True)
    tokenizer.save_pretrained(folder)
    settings = {"dim": dim, "query_maxlen": QUERY_LENGTH, "doc_maxlen": LENGTH}
    (folder / "artifact.metadata").write_text(json.dumps(settings))
    return weights


def texts_and_vectors(folder: pathlib.Path) -> dict:
    """Returns the ids, masks, vectors and scores of the texts."""
    config = ColBERTConfig.load_from_checkpoint(str(folder))
    checkpoint = Checkpoint(str(folder), colbert_config=config)
    query_ids, query_mask = QueryTokenizer(config, verbose=0).tensorize(list(QUERIES))
    ids, mask = DocTokenizer(config).tensorize(list(DOCUMENTS))
    with torch.no_grad():
        queries = checkpoint.query(query_ids, query_mask).float()
        documents, counts = checkpoint.doc(ids, mask, keep_dims="return_mask")
        scores = [colbert_score(query[None], documents.float(), counts) for query in queries]
    return {
        "query_ids": query_ids.tolist(),
        "query_mask": query_mask.tolist(),
        "document_ids": ids.tolist(),
        "counts": counts[..., 0].int().tolist(),
        "query_vectors": queries[..., :KEPT].tolist(),
        "document_vectors": documents[..., :KEPT].tolist(),
        "scores": torch.stack(scores).tolist(),
    }


def loss_case(negatives: int, temperature: float) -> dict:
    """Returns the loss of random vectors: five queries of three tokens, documents of four."""
    generator = torch.Generator().manual_seed(negatives)
    places = 1 + negatives

    def units(*shape: int) -> torch.Tensor:
        found = torch.randn(*shape, generator=generator)
        return torch.nn.functional.normalize(found, dim=-1).requires_grad_()

    # The documents of one place after the other: all right ones, all first negatives, and so on.
    queries, documents = units(5, 3, 6), units(5 * places, 4, 6)
    counts = torch.rand(5 * places, 4, generator=generator) < 0.7
    counts[:, 0] = True
    scores = torch.stack(
        [colbert_score(query[None], documents, counts[..., None]) for query in queries]
    )
    loss = torch.nn.functional.cross_entropy(scores / temperature, torch.arange(5))
    gradients = torch.autograd.grad(loss, (queries, documents))
    return {
        "temperature": temperature,
        "queries": queries.tolist(),
        "documents": documents.tolist(),
        "counts": counts.int().tolist(),
        "scores": scores.tolist(),
        "loss": loss.item(),
        "gradients": [gradient.tolist() for gradient in gradients],
    }


def main(output: pathlib.Path) -> None:
    """Writes the values."""
    with tempfile.TemporaryDirectory() as folder:
        weights = write_checkpoint(pathlib.Path(folder))
        found = {
            "vocabulary": VOCABULARY,
            "query_length": QUERY_LENGTH,
            "max_seq_length": LENGTH,
            "weights": {name: value.tolist() for name, value in weights.items()},
            "queries": QUERIES,
            "documents": DOCUMENTS,
            **texts_and_vectors(pathlib.Path(folder)),
            "losses": [loss_case(0, 1.0), loss_case(2, 0.5)],
        }

    def rounded(value):
        if isinstance(value, float):
            return float(f"{value:.6g}")
        if isinstance(value, dict):
            return {name: rounded(each) for name, each in value.items()}
        return [rounded(each) for each in value] if isinstance(value, list | tuple) else value

    output.write_text(json.dumps(rounded(found)) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
