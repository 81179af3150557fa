"""sentence-transformers' own fine-tuning on few labels: the accuracy on the test file.

    venv/bin/python benchmarks/peers/sentence_transformers_tuning.py FOLDER MODEL pairs|head SEED

FOLDER has train.tsv and test.tsv with the columns text and label. `pairs` is what SetFit does
(Tunstall et al. 2022, arXiv 2209.11055): of each text ten pairs with its own label and ten with
another one, CosineSimilarityLoss, one pass at 2e-5, then logistic regression on the vectors. `head`
trains a linear layer on the vector together with the encoder, 20 passes at 1e-4, the settings of
`beambert finetune` in docs/pretraining.md. Both take batches of 16 and texts of 64 tokens.
"""

import pathlib
import random
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from sentence_transformers import SentenceTransformer, losses
from sklearn.linear_model import LogisticRegression

BATCH, TOKENS, WARMUP = 16, 64, 0.1
PAIRS_OF_EACH_KIND, RATE_OF_PAIRS = 10, 2e-5
PASSES, RATE_OF_HEAD, DECAY_OF_HEAD = 20, 1e-4, 0.01


def read_rows(path: pathlib.Path) -> tuple[list[str], list[str]]:
    """Returns the texts and the labels of a file."""
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    return [row[0] for row in rows], [row[1] for row in rows]


def train(
    weights: Sequence[torch.nn.Parameter],
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Sequence[int]],
    loss_of: Callable[[Sequence[int]], torch.Tensor],
) -> None:
    """Updates the weights once a batch, with a linear warm-up and decay and gradients of norm 1."""
    steps = len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / (WARMUP * steps), (steps - step) / ((1 - WARMUP) * steps)),
    )
    for batch in batches:
        loss_of(batch).backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


def by_pairs(model: SentenceTransformer, texts: list[str], labels: list[str]) -> Callable:
    """Trains the vectors on pairs of texts; returns the function from texts to labels."""
    names = sorted(set(labels))
    texts_of = {
        name: [text for text, label in zip(texts, labels, strict=True) if label == name]
        for name in names
    }
    pairs = []
    for _ in range(PAIRS_OF_EACH_KIND):
        for text, label in zip(texts, labels, strict=True):
            pairs.append((text, random.choice(texts_of[label]), 1.0))
            other = random.choice([name for name in names if name != label])
            pairs.append((text, random.choice(texts_of[other]), 0.0))
    random.shuffle(pairs)
    weights, loss = list(model.parameters()), losses.CosineSimilarityLoss(model)

    def loss_of(batch: Sequence[int]) -> torch.Tensor:
        sides = [model.tokenize([pairs[index][side] for index in batch]) for side in (0, 1)]
        return loss(sides, torch.tensor([pairs[index][2] for index in batch]))

    whole = len(pairs) // BATCH * BATCH
    batches = [range(start, start + BATCH) for start in range(0, whole, BATCH)]
    train(weights, torch.optim.AdamW(weights, lr=RATE_OF_PAIRS), batches, loss_of)
    model.eval()
    regression = LogisticRegression(max_iter=1000).fit(model.encode(texts), labels)
    return lambda asked: regression.predict(model.encode(asked))


def by_head(model: SentenceTransformer, texts: list[str], labels: list[str]) -> Callable:
    """Trains the encoder and a linear layer; returns the function from texts to labels."""
    names = np.array(sorted(set(labels)))
    head = torch.nn.Linear(model.encode(texts[:1]).shape[1], len(names))
    weights = [*model.parameters(), *head.parameters()]
    targets = np.searchsorted(names, labels)

    def loss_of(batch: Sequence[int]) -> torch.Tensor:
        found = model(model.tokenize([texts[index] for index in batch]))["sentence_embedding"]
        return torch.nn.functional.cross_entropy(head(found), torch.tensor(targets[batch]))

    orders = [np.random.permutation(len(texts)) for _ in range(PASSES)]
    batches = [
        order[start : start + BATCH] for order in orders for start in range(0, len(texts), BATCH)
    ]
    model.train()
    optimizer = torch.optim.AdamW(weights, lr=RATE_OF_HEAD, weight_decay=DECAY_OF_HEAD)
    train(weights, optimizer, batches, loss_of)
    model.eval()
    return lambda asked: names[head(torch.tensor(model.encode(asked))).argmax(1).numpy()]


if __name__ == "__main__":
    folder, path, way, seed = sys.argv[1:]
    torch.set_num_threads(1)
    started = time.process_time()
    for set_seed in (torch.manual_seed, random.seed, np.random.seed):
        set_seed(int(seed))
    model = SentenceTransformer(path, device="cpu")
    model.max_seq_length = TOKENS
    model.train()
    tune = {"pairs": by_pairs, "head": by_head}[way]
    answers = tune(model, *read_rows(pathlib.Path(folder, "train.tsv")))
    texts, labels = read_rows(pathlib.Path(folder, "test.tsv"))
    right = np.mean(answers(texts) == np.array(labels))
    print(f"{way} {path} {folder}: {right:.1%}, {time.process_time() - started:.0f} s of a core")
