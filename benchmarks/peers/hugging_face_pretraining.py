"""Hugging Face's side of training_step.py: a pre-training step of BertForPreTraining on torch."""

import os
from collections.abc import Callable

import numpy as np
import torch
import transformers
from answering import answer


def prepare(asked: dict) -> Callable[[], object]:
    """Returns a step as Hugging Face's trainer runs it: AdamW, clipping, dropout."""
    torch.set_num_threads(os.cpu_count())
    model = transformers.BertForPreTraining(transformers.BertConfig(**asked["sizes"])).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    with np.load(f"{asked['folder']}/batch.npz") as arrays:
        tensors = {name: torch.tensor(arrays[name]).long() for name in arrays.files}
    labels = torch.full_like(tensors["input_ids"], -100)
    is_used = tensors["masked_lm_weights"] > 0
    rows = torch.arange(len(labels))[:, None].expand_as(is_used)[is_used]
    labels[rows, tensors["masked_lm_positions"][is_used]] = tensors["masked_lm_ids"][is_used]

    def step() -> None:
        optimizer.zero_grad()
        loss = model(
            input_ids=tensors["input_ids"],
            attention_mask=tensors["input_mask"],
            token_type_ids=tensors["segment_ids"],
            labels=labels,
            next_sentence_label=tensors["next_sentence_labels"][:, 0],
        ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


if __name__ == "__main__":
    answer(prepare)
