"""Hugging Face's side of a pre-training step: its classes on torch.

On a GPU it computes in bfloat16, with its fastest attention that is installed.
"""

import contextlib
import importlib.util
import os
from collections.abc import Callable

import numpy as np
import torch
import transformers
from answering import answer


def read_tensors(folder: str) -> dict[str, torch.Tensor]:
    """Returns the model's inputs, and `labels` with -100 where nothing is predicted."""
    with np.load(f"{folder}/batch.npz") as arrays:
        tensors = {name: torch.tensor(arrays[name]).long() for name in arrays.files}
    labels = torch.full_like(tensors["input_ids"], -100)
    is_used = tensors["masked_lm_weights"] > 0
    rows = torch.arange(len(labels))[:, None].expand_as(is_used)[is_used]
    labels[rows, tensors["masked_lm_positions"][is_used]] = tensors["masked_lm_ids"][is_used]
    inputs = {
        "input_ids": "input_ids",
        "attention_mask": "input_mask",
        "token_type_ids": "segment_ids",
    }
    return {
        **{theirs: tensors[name] for theirs, name in inputs.items()},
        "labels": labels,
        "next_sentence_label": tensors["next_sentence_labels"][:, 0],
    }


class ReplacedTokens(torch.nn.Module):
    """ELECTRA's two models with one table of embeddings; the generator is a quarter as wide."""

    def __init__(self, sizes: dict[str, int]):
        """Creates both models."""
        super().__init__()
        width = sizes["hidden_size"]
        config = transformers.ElectraConfig(**sizes, embedding_size=width)
        narrow = {"hidden_size": width // 4, "intermediate_size": width, "num_attention_heads": 1}
        generator = transformers.ElectraConfig(**(sizes | narrow), embedding_size=width)
        self.discriminator = transformers.ElectraForPreTraining(config)
        self.generator = transformers.ElectraForMaskedLM(generator)
        self.generator.electra.embeddings = self.discriminator.electra.embeddings
        self.generator.tie_weights()

    def forward(
        self, input_ids: torch.Tensor, labels: torch.Tensor, **inputs: torch.Tensor
    ) -> torch.Tensor:
        """Returns the sum of both losses."""
        is_chosen = labels >= 0
        masked = torch.where(is_chosen, 4, input_ids)
        found = self.generator(masked, labels=labels, **inputs)
        drawn = torch.distributions.Categorical(logits=found.logits[is_chosen].detach()).sample()
        replaced = masked.masked_scatter(is_chosen, drawn)
        is_replaced = ((replaced != labels) & is_chosen).long()
        return found.loss + 50 * self.discriminator(replaced, labels=is_replaced, **inputs).loss


def model_of(objective: str, family: str, sizes: dict[str, int], attention: str) -> torch.nn.Module:
    """Returns the model that learns an objective."""
    if objective == "rtd":
        return ReplacedTokens(sizes)
    settings = sizes | {"attn_implementation": attention}
    if family == "modernbert":
        return transformers.ModernBertForMaskedLM(transformers.ModernBertConfig(**settings))
    is_mlm = objective == "mlm"
    its_class = transformers.BertForMaskedLM if is_mlm else transformers.BertForPreTraining
    return its_class(transformers.BertConfig(**settings))


def prepare(asked: dict) -> Callable[[], object]:
    """Returns a step as Hugging Face's trainer runs it: AdamW, clipping, dropout."""
    torch.set_num_threads(os.cpu_count())
    is_on_gpu = asked.get("on_device", False) and torch.cuda.is_available()
    device = "cuda" if is_on_gpu else "cpu"
    attention = "sdpa"
    if is_on_gpu and importlib.util.find_spec("flash_attn"):
        attention = "flash_attention_2"
    objective, family = asked["objective"], asked.get("family", "bert")
    inputs = {name: tensor.to(device) for name, tensor in read_tensors(asked["folder"]).items()}
    model = model_of(objective, family, asked["sizes"], attention).train().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    if objective in ("mlm", "rtd"):
        del inputs["next_sentence_label"]
    if family == "modernbert":
        del inputs["token_type_ids"]
    in_bfloat16 = contextlib.nullcontext()
    if is_on_gpu:
        in_bfloat16 = torch.autocast("cuda", torch.bfloat16)

    def step() -> None:
        optimizer.zero_grad()
        with in_bfloat16:
            found = model(**inputs)
        loss = found if objective == "rtd" else found.loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if is_on_gpu:
            torch.cuda.synchronize()

    return step


if __name__ == "__main__":
    answer(prepare)
