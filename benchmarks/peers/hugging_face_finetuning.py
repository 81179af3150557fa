"""Hugging Face's side of finetuning.py: a pass of BertForSequenceClassification over batches."""

import os
from collections.abc import Callable

import numpy as np
import torch
import transformers
from answering import answer


def read_batches(path: str, pad_to: int | None) -> list[dict[str, torch.Tensor]]:
    """Returns the model's inputs.

    Args:
      path: file with arrays of [batches, rows, positions].
      pad_to: length of every batch; None takes that of its longest text.
    """
    with np.load(path) as arrays:
        stacked = {name: torch.tensor(arrays[name]).long() for name in arrays.files}
    batches = []
    for index, mask in enumerate(stacked["input_mask"]):
        length = pad_to or int(mask.sum(1).max())
        spare = max(length - mask.shape[1], 0)
        inputs = {
            theirs: torch.nn.functional.pad(stacked[name][index][:, :length], (0, spare))
            for theirs, name in (
                ("input_ids", "input_ids"),
                ("attention_mask", "input_mask"),
                ("token_type_ids", "segment_ids"),
            )
        }
        batches.append(inputs | {"labels": stacked["label_ids"][index]})
    return batches


def prepare(asked: dict) -> Callable[[], object]:
    """Returns a pass with AdamW, clipping and dropout."""
    torch.set_num_threads(os.cpu_count())
    model = transformers.BertForSequenceClassification.from_pretrained(
        f"{asked['folder']}/encoder", num_labels=asked["labels"]
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.01)
    batches = read_batches(f"{asked['folder']}/batches.npz", asked["pad_to"])

    def run_pass() -> None:
        for inputs in batches:
            optimizer.zero_grad()
            model(**inputs).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return run_pass


if __name__ == "__main__":
    answer(prepare)
