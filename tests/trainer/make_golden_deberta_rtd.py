"""Makes golden_deberta_rtd/: replaced token detection of a small DeBERTa-v3 of transformers.

    python make_golden_deberta_rtd.py golden_deberta_rtd

The folder is that of a discriminator, a DebertaV2Model with the head of the original's
DeBERTa/apps/models/replaced_token_detection_model.py under its published names; generator/ in it is
that of its DebertaV2ForMaskedLM. arrays.npz has the batch, the generator's tokens, the losses and
the gradients. The discriminator's word embeddings are the generator's, detached, and a delta, as in
DeBERTa/apps/tasks/rtd_task.py of the original; their gradient there is that of the delta.
Needs torch and transformers (made with 2.15.0 and 5.23.0), which the tests do not.
"""

import pathlib
import sys

import numpy as np
import safetensors.torch
import torch
import transformers
from make_golden_electra import MASK, TOKENS, WEIGHT, make_batch
from make_golden_families import DEBERTA_V3

SIZES = DEBERTA_V3 | {
    "vocab_size": len(TOKENS),
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 12,
    "position_buckets": 8,
    "initializer_range": 0.3,
}
LAYERS = 4
EMBEDDINGS = "embeddings.word_embeddings.weight"


class Head(torch.nn.Module):
    """LMMaskPredictionHead of the original."""

    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.dense = torch.nn.Linear(width, width)
        self.LayerNorm = torch.nn.LayerNorm(width, config.layer_norm_eps)
        self.classifier = torch.nn.Linear(width, 1)

    def forward(self, states):
        states = self.LayerNorm(states[:, 0, :].unsqueeze(-2) + states)
        return self.classifier(torch.nn.functional.gelu(self.dense(states))).squeeze(-1)


def disturbed(module):
    """Returns a module whose biases and norms are random, too."""
    module = module.eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module


def main() -> None:
    """Writes the folders and arrays.npz."""
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(1)
    config = transformers.DebertaV2Config(
        **SIZES, num_hidden_layers=LAYERS, attn_implementation="eager"
    )
    of_generator = transformers.DebertaV2Config(
        **SIZES, num_hidden_layers=LAYERS // 2, attn_implementation="eager"
    )
    discriminator = disturbed(transformers.DebertaV2Model(config))
    generator = disturbed(transformers.DebertaV2ForMaskedLM(of_generator))
    head = disturbed(Head(config))
    shared = generator.deberta.embeddings.word_embeddings.weight
    delta = torch.nn.Parameter(0.2 * torch.randn_like(shared))
    batch = make_batch()
    used = batch["masked_lm_weights"] > 0
    places = np.nonzero(used)[0], batch["masked_lm_positions"][used]
    hidden, replaced = batch["original"].copy(), batch["original"].copy()
    hidden[places], replaced[places] = MASK, batch["sampled"][used]
    labels = np.full_like(hidden, -100)
    labels[places] = batch["masked_lm_ids"][used]
    mask = torch.tensor(batch["input_mask"])
    masked_lm = generator(torch.tensor(hidden), attention_mask=mask, labels=torch.tensor(labels))
    states = torch.func.functional_call(
        discriminator,
        {EMBEDDINGS: shared.detach() + delta},
        (torch.tensor(replaced),),
        {"attention_mask": mask},
    ).last_hidden_state
    logits = head(states)
    is_replaced = replaced != batch["original"]
    detection = torch.nn.functional.binary_cross_entropy_with_logits(
        logits[mask > 0], torch.tensor(is_replaced).float()[mask > 0]
    )
    (masked_lm.loss + WEIGHT * detection).backward()

    arrays = {f"features/{name}": value for name, value in batch.items()}
    arrays |= {
        "masked_lm_logits": masked_lm.logits.detach().numpy()[places],
        "replaced_token_logits": logits.detach().numpy(),
        "is_replaced": is_replaced,
        "masked_lm_loss": masked_lm.loss.detach().numpy(),
        "replaced_token_loss": detection.detach().numpy(),
    }
    found = {f"deberta.{name}": value for name, value in discriminator.named_parameters()}
    found[f"deberta.{EMBEDDINGS}"] = delta
    found |= {f"mask_predictions.{name}": value for name, value in head.named_parameters()}
    for name, value in found.items():
        arrays[f"gradients/discriminator/{name}"] = value.grad.numpy()
    for name, value in generator.named_parameters():
        arrays[f"gradients/generator/{name}"] = value.grad.numpy()
    generator.save_pretrained(folder / "generator")
    (folder / "generator" / "generation_config.json").unlink(missing_ok=True)
    with torch.no_grad():
        found[f"deberta.{EMBEDDINGS}"] = shared + delta
    safetensors.torch.save_file(
        {name: value.detach().contiguous() for name, value in found.items()},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    config.architectures = ["DebertaV2Model"]
    config.save_pretrained(folder)
    for path in (folder, folder / "generator"):
        (path / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    np.savez_compressed(folder / "arrays.npz", **arrays)


if __name__ == "__main__":
    main()
