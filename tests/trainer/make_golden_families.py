"""Makes golden_families/: small models of transformers of each family, and what they compute.

    python make_golden_families.py golden_families

Each folder is that of a model with its pre-training heads; arrays.npz has a batch, the hidden
states of all layers, the logits, the loss and the gradients, and for each class of a task the
weights of its head and its logits on the same encoder. counts.json has the numbers of weights of
published sizes, computed from the values of their config.json.
Needs torch and transformers (made with 2.15.0 and 5.23.0), which the tests do not.
"""

import json
import pathlib
import string
import sys

import numpy as np
import torch
import transformers

LETTERS = [".", *string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase)]
LENGTHS, LENGTH, PREDICTIONS, LABELS = (11, 4, 7), 11, 3, 3
SIZES = {
    "vocab_size": 58,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 14,
    "initializer_range": 0.3,
}
NARROW = {"embedding_size": 8}
# What the published config.json of all sizes say.
DEBERTA_V3 = {
    "relative_attention": True,
    "position_buckets": 256,
    "max_relative_positions": -1,
    "pos_att_type": "p2c|c2p",
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
}
# Folder -> class, sizes of its configuration, and what the task classes' heads are called.
CASES = {
    "modernbert": (
        "ModernBertForMaskedLM",
        SIZES
        | {"num_hidden_layers": 5, "local_attention": 4, "classifier_pooling": "mean"}
        | dict.fromkeys(("bos_token_id", "cls_token_id"), 2)
        | dict.fromkeys(("eos_token_id", "sep_token_id"), 3)
        | {"pad_token_id": 0},
    ),
    "roberta": (
        "RobertaForMaskedLM",
        SIZES | {"type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1},
    ),
    "distilbert": (
        "DistilBertForMaskedLM",
        {
            "vocab_size": 58,
            "dim": 16,
            "n_layers": 3,
            "n_heads": 2,
            "hidden_dim": 24,
            "max_position_embeddings": 14,
            "initializer_range": 0.3,
        },
    ),
    "albert": ("AlbertForPreTraining", SIZES | NARROW),
    # The farther half of the positions lies in logarithmic buckets.
    "deberta-v2": ("DebertaV2ForMaskedLM", SIZES | DEBERTA_V3 | {"position_buckets": 8}),
    "electra": ("ElectraForMaskedLM", SIZES | NARROW),
    "electra_discriminator": ("ElectraForPreTraining", SIZES | NARROW),
}
TASKS = {
    "SequenceClassification": {"num_labels": LABELS, "problem_type": "single_label_classification"},
    "MultipleChoice": {},
    "TokenClassification": {"num_labels": LABELS},
    "QuestionAnswering": {"num_labels": 2},
}
# The config.json of the published models, without what changes no size.
PUBLISHED = {
    "modernbert-base": ("ModernBertForMaskedLM", {}),
    "modernbert-large": (
        "ModernBertForMaskedLM",
        {
            "hidden_size": 1024,
            "intermediate_size": 2624,
            "num_attention_heads": 16,
            "num_hidden_layers": 28,
        },
    ),
    "roberta-base": (
        "RobertaForMaskedLM",
        {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    ),
    "roberta-large": (
        "RobertaForMaskedLM",
        {
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_attention_heads": 16,
            "num_hidden_layers": 24,
            "max_position_embeddings": 514,
            "type_vocab_size": 1,
            "layer_norm_eps": 1e-5,
        },
    ),
    "distilbert-base-uncased": ("DistilBertForMaskedLM", {}),
    "albert-base-v2": (
        "AlbertForPreTraining",
        {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
    ),
    "albert-xxlarge-v2": ("AlbertForPreTraining", {}),
    **{
        f"deberta-v3-{size}": (
            "DebertaV2ForMaskedLM",
            DEBERTA_V3
            | {
                "hidden_size": width,
                "num_hidden_layers": layers,
                "num_attention_heads": width // 64,
                "intermediate_size": 4 * width,
            },
        )
        for size, layers, width in (
            ("xsmall", 12, 384),
            ("small", 6, 768),
            ("base", 12, 768),
            ("large", 24, 1024),
        )
    },
    "electra-small-discriminator": ("ElectraForPreTraining", {}),
    "electra-base-discriminator": (
        "ElectraForPreTraining",
        {
            "embedding_size": 768,
            "hidden_size": 768,
            "intermediate_size": 3072,
            "num_attention_heads": 12,
        },
    ),
}


def make(name: str, sizes: dict) -> torch.nn.Module:
    """Returns a model whose biases and norms are random, too."""
    of = getattr(transformers, name)
    model = of(of.config_class(**sizes, attn_implementation="eager")).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def make_batch(tokens: list[str]) -> dict[str, np.ndarray]:
    """Returns a batch in the record format."""
    random = np.random.default_rng(2)
    mask = (np.arange(LENGTH) < np.array(LENGTHS)[:, None]).astype(np.int64)
    ids = random.integers(5, len(tokens), mask.shape)
    ids[:, 0] = tokens.index("[CLS]")
    used = np.arange(PREDICTIONS) < np.array([3, 1, 2])[:, None]
    positions = np.array([[2, 5, 10], [3, 0, 0], [1, 6, 0]])
    labels = np.take_along_axis(ids, positions, 1) * used
    ids[0, [2, 5]], ids[1, 3], ids[2, 1] = tokens.index("[MASK]"), 30, tokens.index("[MASK]")
    return {
        "input_ids": np.where(mask, ids, tokens.index("[PAD]")),
        "input_mask": mask,
        "segment_ids": (np.arange(LENGTH) > 2) * mask,
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": used.astype(np.float32),
        "next_sentence_labels": np.array([[0], [1], [1]]),
        "is_replaced": random.integers(0, 2, mask.shape) * mask,
    }


def run(model: torch.nn.Module, inputs: dict, batch: dict) -> tuple[dict, torch.Tensor]:
    """Returns the model's outputs by our names, and its loss, for the heads that it has."""
    given = dict(inputs)
    if type(model).__name__ == "ElectraForPreTraining":
        given["labels"] = torch.tensor(batch["is_replaced"])
    else:
        labels = np.full_like(batch["input_ids"], -100)
        used = batch["masked_lm_weights"] > 0
        labels[np.nonzero(used)[0], batch["masked_lm_positions"][used]] = batch["masked_lm_ids"][
            used
        ]
        given["labels"] = torch.tensor(labels)
    if type(model).__name__ == "AlbertForPreTraining":
        given["sentence_order_label"] = torch.tensor(batch["next_sentence_labels"][:, 0])
    outputs = model(**given, output_hidden_states=True)
    logits = getattr(outputs, "prediction_logits", None)
    arrays = {"logits": outputs.logits if logits is None else logits}
    if "sentence_order_label" in given:
        arrays["sentence_order_logits"] = outputs.sop_logits
    for index, state in enumerate(outputs.hidden_states):
        arrays[f"hidden_states/{index}"] = state
    return {name: value.detach().numpy() for name, value in arrays.items()}, outputs.loss


def task_arrays(name: str, model: torch.nn.Module, inputs: dict) -> dict[str, np.ndarray]:
    """Returns the weights of the heads of the classes for tasks, and the classes' logits."""
    prefix, base = name.split("For")[0], model.base_model_prefix
    arrays = {}
    for task, settings in TASKS.items():
        of = make(f"{prefix}For{task}", model.config.to_diff_dict() | settings)
        theirs = {k: v for k, v in model.state_dict().items() if k.startswith(f"{base}.")}
        of.load_state_dict(theirs, strict=False)
        given = inputs
        if task == "MultipleChoice":
            given = {key: value[None] for key, value in inputs.items()}
        if task == "QuestionAnswering":
            outputs = of(**inputs)
            logits = torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
        else:
            logits = of(**given).logits
        arrays[f"tasks/{task}/logits"] = logits.detach().numpy()
        for key, value in of.state_dict().items():
            if key not in theirs:
                arrays[f"tasks/{task}/weights/{key}"] = value.numpy()
    return arrays


def main() -> None:
    """Writes the folders and counts.json."""
    root = pathlib.Path(sys.argv[1])
    for folder, (name, sizes) in CASES.items():
        torch.manual_seed(1)
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        if sizes.get("pad_token_id") == 1:
            special[:2] = special[1::-1]
        tokens = special + LETTERS
        model, batch = make(name, sizes), make_batch(tokens)
        inputs = {
            "input_ids": torch.tensor(batch["input_ids"]),
            "attention_mask": torch.tensor(batch["input_mask"]),
        }
        if sizes.get("type_vocab_size", 2) == 2 and name.startswith(("Albert", "Electra")):
            inputs["token_type_ids"] = torch.tensor(batch["segment_ids"])
        outputs, loss = run(model, inputs, batch)
        loss.backward()
        arrays = {f"features/{key}": value for key, value in batch.items()} | outputs
        arrays["loss"] = loss.detach().numpy()
        for parameter, value in model.named_parameters():
            if value.grad is not None:
                arrays[f"gradients/{parameter}"] = value.grad.numpy()
        arrays |= task_arrays(name, model, inputs)
        path = root / folder
        model.save_pretrained(path)
        (path / "generation_config.json").unlink(missing_ok=True)
        (path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
        np.savez_compressed(path / "arrays.npz", **arrays)
    counts = {}
    with torch.device("meta"):
        for published, (name, sizes) in PUBLISHED.items():
            of = getattr(transformers, name)
            model = of(of.config_class(**sizes))
            model.tie_weights()
            counts[published] = {
                "config": of.config_class(**sizes).to_dict(),
                "parameters": sum(each.numel() for each in model.parameters()),
            }
    (root / "counts.json").write_text(json.dumps(counts, indent=1) + "\n")


if __name__ == "__main__":
    main()
