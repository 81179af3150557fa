"""Makes golden_electra/: small models of transformers, and what they compute on the same batch.

    python make_golden_electra.py golden_electra

The folder is that of an ElectraForPreTraining, generator/ in it that of its ElectraForMaskedLM,
with the same embeddings; arrays.npz has the batch, the generator's tokens, the losses and the
gradients.
Needs torch and transformers (made with 2.15.0 and 5.23.0), which the tests do not.
"""

import pathlib
import string
import sys

import numpy as np
import torch
import transformers

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *string.ascii_lowercase]
TOKENS += [f"##{letter}" for letter in string.ascii_lowercase]
MASK, LENGTHS, LENGTH, PREDICTIONS = 4, (10, 4, 7), 10, 3
SIZES = {
    "vocab_size": len(TOKENS),
    "embedding_size": 16,
    "num_hidden_layers": 2,
    "max_position_embeddings": 12,
    "initializer_range": 0.3,
}
# run_pretraining.py and configure_pretraining.py of google-research/electra.
WEIGHT = 50.0


def make(model_class, **sizes):
    model = model_class(transformers.ElectraConfig(**SIZES, **sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # biases and norms too
    return model


def make_batch() -> dict[str, np.ndarray]:
    """Returns a batch in the record format, and tokens that a generator may have drawn."""
    random = np.random.default_rng(2)
    lengths = np.array(LENGTHS)[:, None]
    mask = (np.arange(LENGTH) < lengths).astype(np.int64)
    original = random.integers(5, len(TOKENS), mask.shape) * mask
    original[:, 0] = 2
    used = np.arange(PREDICTIONS) < np.array([3, 1, 2])[:, None]
    positions = np.array([[2, 5, 9], [3, 0, 0], [1, 6, 0]])
    labels = np.take_along_axis(original, positions, 1) * used
    sampled = np.where(random.random(used.shape) < 0.4, labels, random.integers(5, 58, used.shape))
    sampled[0, 0] = labels[0, 0]  # at least one draw of the token itself
    input_ids = original.copy()
    # As BERT's records have them: a mask, a random token, the token itself.
    input_ids[0, [2, 5]], input_ids[1, 3], input_ids[2, 1] = (MASK, 30), MASK, MASK
    return {
        "input_ids": input_ids,
        "input_mask": mask,
        "segment_ids": random.integers(0, 2, mask.shape) * mask,
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": used.astype(np.float32),
        "original": original,
        "sampled": sampled * used,
    }


def main() -> None:
    """Writes the folders and arrays.npz."""
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(1)
    discriminator = make(
        transformers.ElectraForPreTraining,
        hidden_size=16,
        num_attention_heads=2,
        intermediate_size=24,
    )
    generator = make(
        transformers.ElectraForMaskedLM,
        hidden_size=8,
        num_attention_heads=1,
        intermediate_size=32,
    )
    generator.electra.embeddings = discriminator.electra.embeddings
    generator.tie_weights()
    batch = make_batch()
    used = batch["masked_lm_weights"] > 0
    rows = np.nonzero(used)[0]
    places = rows, batch["masked_lm_positions"][used]
    hidden, replaced = batch["original"].copy(), batch["original"].copy()
    hidden[places], replaced[places] = MASK, batch["sampled"][used]
    labels = np.full_like(hidden, -100)
    labels[places] = batch["masked_lm_ids"][used]
    inputs = {
        "attention_mask": torch.tensor(batch["input_mask"]),
        "token_type_ids": torch.tensor(batch["segment_ids"]),
    }
    masked_lm = generator(torch.tensor(hidden), labels=torch.tensor(labels), **inputs)
    detection = discriminator(
        torch.tensor(replaced),
        labels=torch.tensor((replaced != batch["original"]).astype(np.int64)),
        **inputs,
    )
    (masked_lm.loss + WEIGHT * detection.loss).backward()
    arrays = {f"features/{name}": value for name, value in batch.items()}
    arrays |= {
        "masked_lm_logits": masked_lm.logits.detach().numpy()[places],
        "replaced_token_logits": detection.logits.detach().numpy(),
        "is_replaced": replaced != batch["original"],
        "masked_lm_loss": masked_lm.loss.detach().numpy(),
        "replaced_token_loss": detection.loss.detach().numpy(),
    }
    for name, model in (("generator", generator), ("discriminator", discriminator)):
        for parameter, value in model.named_parameters():
            arrays[f"gradients/{name}/{parameter}"] = value.grad.numpy()
    for model, path in ((discriminator, folder), (generator, folder / "generator")):
        model.save_pretrained(path)
        (path / "generation_config.json").unlink(missing_ok=True)
        (path / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    np.savez_compressed(folder / "arrays.npz", **arrays)


if __name__ == "__main__":
    main()
