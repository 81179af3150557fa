"""Makes golden_distillation/: small models of transformers, and what they compute on one batch.

    python make_golden_distillation.py golden_distillation

student/ is a BertForPreTraining, and answers/ its teacher, a BertForMaskedLM of the same width.
arrays.npz has the batch, the losses and the student's gradients. The losses are computed as in
distiller.py of DistilBERT (examples/research_projects/distillation in transformers 4).
Needs torch and transformers (made with 2.15.0 and 5.23.0), which the tests do not.
"""

import pathlib
import string
import sys

import numpy as np
import torch
import transformers
from torch.nn import functional

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *string.ascii_lowercase]
TOKENS += [f"##{letter}" for letter in string.ascii_lowercase]
LENGTHS, LENGTH, PREDICTIONS = (10, 4, 7), 10, 3
TEMPERATURE = 2.0
WEIGHTS = {"masked_lm": 2.0, "next_sentence": 2.0, "distillation": 5.0, "cosine": 1.0}


def make(model_class, width, layers, heads):
    config = transformers.BertConfig(
        vocab_size=len(TOKENS),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=24,
        max_position_embeddings=12,
        initializer_range=0.3,
    )
    model = model_class(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # biases and norms too
    return model


def make_batch() -> dict[str, np.ndarray]:
    """Returns a batch in the record format."""
    random = np.random.default_rng(2)
    mask = (np.arange(LENGTH) < np.array(LENGTHS)[:, None]).astype(np.int64)
    input_ids = random.integers(4, len(TOKENS), mask.shape) * mask
    input_ids[:, 0] = 2
    used = np.arange(PREDICTIONS) < np.array([3, 1, 2])[:, None]
    return {
        "input_ids": input_ids,
        "input_mask": mask,
        "segment_ids": random.integers(0, 2, mask.shape) * mask,
        "masked_lm_positions": np.array([[2, 5, 9], [3, 0, 0], [1, 6, 0]]),
        "masked_lm_ids": random.integers(5, len(TOKENS), used.shape) * used,
        "masked_lm_weights": used.astype(np.float32),
        "next_sentence_labels": np.array([[0], [1], [1]]),
    }


def main() -> None:
    """Writes the folders and arrays.npz."""
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(1)
    student = make(transformers.BertForPreTraining, 16, 2, 2)
    answering = make(transformers.BertForMaskedLM, 16, 3, 4)
    batch = make_batch()
    used = batch["masked_lm_weights"] > 0
    places = np.nonzero(used)[0], batch["masked_lm_positions"][used]
    is_token = torch.tensor(batch["input_mask"]) > 0
    inputs = {
        "input_ids": torch.tensor(batch["input_ids"]),
        "attention_mask": torch.tensor(batch["input_mask"]),
        "token_type_ids": torch.tensor(batch["segment_ids"]),
        "output_hidden_states": True,
    }

    def run():
        """The student's own losses, and the teacher's."""
        output = student(**inputs)
        logits, labels = output.prediction_logits[places], batch["masked_lm_ids"][used]
        losses = {
            "masked_lm": functional.cross_entropy(logits, torch.tensor(labels)),
            "next_sentence": functional.cross_entropy(
                output.seq_relationship_logits, torch.tensor(batch["next_sentence_labels"][:, 0])
            ),
        }
        with torch.no_grad():
            shown = answering(**inputs)
        losses["distillation"] = TEMPERATURE**2 * functional.kl_div(
            functional.log_softmax(logits / TEMPERATURE, dim=-1),
            functional.softmax(shown.logits[places] / TEMPERATURE, dim=-1),
            reduction="batchmean",
        )
        states = [each.hidden_states[-1][is_token] for each in (output, shown)]
        losses["cosine"] = functional.cosine_embedding_loss(*states, torch.ones(len(states[0])))
        return losses, sum(WEIGHTS[of] * loss for of, loss in losses.items())

    arrays = {f"features/{name}": value for name, value in batch.items()}
    losses, loss = run()
    loss.backward()
    arrays |= {f"answers/{of}_loss": value.detach().numpy() for of, value in losses.items()}
    arrays["answers/loss"] = loss.detach().numpy()
    for parameter, value in student.named_parameters():
        arrays[f"answers/gradients/{parameter}"] = value.grad.numpy()
    for model, name in ((student, "student"), (answering, "answers")):
        model.save_pretrained(folder / name)
        (folder / name / "generation_config.json").unlink(missing_ok=True)
        (folder / name / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    np.savez_compressed(folder / "arrays.npz", **arrays)


if __name__ == "__main__":
    main()
