"""Makes golden_losses.json: sentence-transformers' losses of given vectors, with their gradients.

    python make_golden_losses.py golden_losses.json

Each case has the vectors [examples, texts, components], the settings, the loss and its gradient by
the vectors. No two texts are equal, as sentence-transformers does not look at texts.
Needs torch and sentence-transformers (made with 2.15.0 and 6.2.0), which the tests do not.
"""

import json
import pathlib
import sys

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sparse_encoder import losses as sparse_losses


class Table(torch.nn.Module):
    """Takes the places of texts in place of texts, and returns the vectors of a table."""

    def __init__(self, vectors: torch.Tensor):
        """Takes the vectors, [examples, texts, components]."""
        super().__init__()
        self.vectors = torch.nn.Parameter(vectors)

    def forward(self, features: dict) -> dict:
        """Returns the vectors of a column."""
        return features | {"sentence_embedding": self.vectors[:, int(features["column"][0])]}

    def save(self, *arguments, **named) -> None:
        """Nothing, it is never saved."""


def case(make_loss, texts: int, seed: int, scores: list[float] | None, **settings) -> dict:
    """Returns a case: the loss of random vectors of some examples."""
    generator = torch.Generator().manual_seed(seed)
    table = Table(torch.randn(6, texts, 8, generator=generator))
    model = SentenceTransformer(modules=[table], device="cpu")
    loss = make_loss(model)
    if dims := settings.get("matryoshka_dims"):
        loss = losses.MatryoshkaLoss(model, loss, dims)
    columns = [{"column": torch.tensor([number])} for number in range(texts)]
    value = loss(columns, torch.tensor(scores or [0.0] * 6))
    value.backward()
    return settings | {
        "vectors": table.vectors.tolist(),
        "scores": scores,
        "value": value.item(),
        "gradient": table.vectors.grad.tolist(),
    }


def main(output: pathlib.Path) -> None:
    """Writes the cases."""

    def in_batch(scale: float):
        return lambda model: losses.MultipleNegativesRankingLoss(model, scale=scale)

    def splade(weight: float):
        def loss(model):
            in_batch = sparse_losses.SparseMultipleNegativesRankingLoss(model)
            made = sparse_losses.SpladeLoss(
                model, in_batch, weight, query_regularizer_weight=weight
            )
            return lambda *given: sum(made(*given).values())

        return loss

    def cosent(scale: float):
        return lambda model: losses.CoSENTLoss(model, scale=scale)

    scores, stars = [0.1, 0.9, 0.4, 0.4, -1.0, 1.0], [0.0, 5.0, 2.5, 3.0, 3.0, 1.0]
    cases = {
        "pairs": case(in_batch(20.0), 2, 1, None, loss="in_batch", temperature=0.05),
        "triplets": case(in_batch(10.0), 3, 2, None, loss="in_batch", temperature=0.1),
        "two negatives": case(in_batch(20.0), 4, 3, None, loss="in_batch", temperature=0.05),
        "matryoshka": case(
            in_batch(20.0), 3, 4, None, loss="in_batch", temperature=0.05, matryoshka_dims=[8, 4, 2]
        ),
        "cosent": case(cosent(20.0), 2, 5, stars, loss="cosent", temperature=0.05),
        "cosent, matryoshka": case(
            cosent(5.0), 2, 6, stars, loss="cosent", temperature=0.2, matryoshka_dims=[8, 3]
        ),
        "cosine": case(losses.CosineSimilarityLoss, 2, 7, scores, loss="cosine", temperature=1.0),
    }
    cases["sparse"] = case(splade(3e-2), 3, 8, None, loss="sparse", flops_weight=3e-2)
    output.write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
