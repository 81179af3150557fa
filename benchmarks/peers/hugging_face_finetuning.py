"""Hugging Face's side of finetuning.py, which runs this file by itself.

Reads a line from stdin for every pass over the batches and answers with one. Imports nothing of
this repository.
"""

import json
import os
import sys


def main() -> None:
    """Answers every line with a pass."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the peer prints goes elsewhere
    asked = json.loads(sys.argv[1])
    import numpy as np
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count())
    model = transformers.BertForSequenceClassification.from_pretrained(
        f"{asked['folder']}/encoder", num_labels=asked["labels"]
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.01)
    with np.load(f"{asked['folder']}/batches.npz") as arrays:
        stacked = {name: torch.tensor(arrays[name]).long() for name in arrays.files}
    batches = []
    for index in range(len(stacked["label_ids"])):
        batch = {name: value[index] for name, value in stacked.items()}
        length = asked["pad_to"] or int(batch["input_mask"].sum(1).max())

        def to_length(values, length=length):
            spare = max(length - values.shape[1], 0)
            return torch.nn.functional.pad(values[:, :length], (0, spare))

        inputs = {
            "input_ids": to_length(batch["input_ids"]),
            "attention_mask": to_length(batch["input_mask"]),
            "token_type_ids": to_length(batch["segment_ids"]),
            "labels": batch["label_ids"],
        }
        batches.append(inputs)
    print("ready", file=answers, flush=True)
    for _ in sys.stdin:
        for inputs in batches:
            optimizer.zero_grad()
            model(**inputs).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print("done", file=answers, flush=True)


if __name__ == "__main__":
    main()
