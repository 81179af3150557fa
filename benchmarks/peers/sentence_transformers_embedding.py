"""sentence-transformers' side of embedding.py: the library encodes the texts, 32 at a time."""

import os
import pathlib
from collections.abc import Callable

import numpy as np
import torch
from answering import answer
from sentence_transformers import SentenceTransformer


def prepare(asked: dict) -> Callable[[], object]:
    """Returns the work: all texts, in the library's own order and batches."""
    torch.set_num_threads(os.cpu_count())
    model = SentenceTransformer(asked["model"], device="cpu")
    texts = pathlib.Path(asked["folder"], "texts.txt").read_text().splitlines()

    def step() -> None:
        np.save(f"{asked['folder']}/vectors.npy", model.encode(texts))

    return step


if __name__ == "__main__":
    answer(prepare)
