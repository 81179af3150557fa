"""Makes the golden folders of small models of transformers, and what they compute.

    python make_golden.py FOLDER

A folder of a model has its configuration, weights and vocabulary; arrays.npz has a batch, losses,
logits and gradients.

- golden_families: a model of each family with its pre-training heads, with the hidden states of all
  layers, and for each class of a task the weights of its head and its logits on the same encoder.
  counts.json has the numbers of weights of published sizes, by the values of their config.json, and
  variants.npz the masked-LM logits of these weights with other values in config.json.
- golden_electra, golden_deberta_rtd: a discriminator, and in generator/ its generator. That of
  DeBERTa-v3 is a DebertaV2Model with the head of the original's
  DeBERTa/apps/models/replaced_token_detection_model.py. Its word embeddings are the generator's,
  detached, and a delta, as in DeBERTa/apps/tasks/rtd_task.py; their gradient is that of the delta.
- golden_distillation: student/ is a BertForPreTraining, and answers/ its teacher, a BertForMaskedLM
  of the same width. The losses are those of distiller.py of DistilBERT
  (examples/research_projects/distillation in transformers 4).

Needs torch and transformers (made with 2.15.0 and 5.24.0), which the tests do not.
"""

import json
import pathlib
import shutil
import string
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers
from torch.nn import functional

LETTERS = [".", *string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase)]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS]
MASK, PREDICTIONS, LABELS = 4, 3, 3
SIZES = {
    "vocab_size": len(TOKENS),
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
# Folder -> class, and sizes of its configuration.
CASES = {
    "bert": ("BertForPreTraining", SIZES),
    "bert_masked_lm": ("BertForMaskedLM", SIZES | {"num_hidden_layers": 2}),
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
            "vocab_size": len(TOKENS),
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
# Folder -> other values of its config.json with which its weights go, for variants.npz.
VARIANTS = [
    *((name, {"hidden_act": "relu"}) for name in ("bert", "roberta", "albert", "electra")),
    (
        "deberta-v2",
        {"hidden_act": "relu", "pos_att_type": "c2p|p2c", "max_position_embeddings": 12},
    ),
    ("distilbert", {"activation": "relu"}),
    ("distilbert", {"num_attention_heads": 4, "num_hidden_layers": 2}),
    ("modernbert", {"hidden_activation": "relu", "local_attention": 7, "norm_eps": 0.1}),
    (
        "modernbert",
        {"layer_types": None, "rope_parameters": None, "global_attn_every_n_layers": 2}
        | {"global_rope_theta": 100.0, "local_rope_theta": 7, "initializer_cutoff_factor": 3.0},
    ),
]
TASKS = {
    "SequenceClassification": {"num_labels": LABELS, "problem_type": "single_label_classification"},
    "MultipleChoice": {},
    "TokenClassification": {"num_labels": LABELS},
    "QuestionAnswering": {"num_labels": 2},
}


def wide(layers: int, width: int) -> dict[str, int]:
    """Returns sizes whose heads have the width 64."""
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "intermediate_size": 4 * width}
    return sizes | {"num_attention_heads": width // 64}


# The config.json of the published models, without what changes no size.
ROBERTA = {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
PUBLISHED = {
    "modernbert-base": ("ModernBertForMaskedLM", {}),
    "modernbert-large": (
        "ModernBertForMaskedLM",
        wide(28, 1024) | {"intermediate_size": 2624},
    ),
    "roberta-base": ("RobertaForMaskedLM", ROBERTA),
    "roberta-large": ("RobertaForMaskedLM", ROBERTA | wide(24, 1024)),
    "distilbert-base-uncased": ("DistilBertForMaskedLM", {}),
    "albert-base-v2": (
        "AlbertForPreTraining",
        {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
    ),
    "albert-xxlarge-v2": ("AlbertForPreTraining", {}),
    "deberta-v3-xsmall": ("DebertaV2ForMaskedLM", DEBERTA_V3 | wide(12, 384)),
    "deberta-v3-small": ("DebertaV2ForMaskedLM", DEBERTA_V3 | wide(6, 768)),
    "deberta-v3-base": ("DebertaV2ForMaskedLM", DEBERTA_V3 | wide(12, 768)),
    "deberta-v3-large": ("DebertaV2ForMaskedLM", DEBERTA_V3 | wide(24, 1024)),
    "electra-small-discriminator": ("ElectraForPreTraining", {}),
    "electra-base-discriminator": (
        "ElectraForPreTraining",
        wide(12, 768) | {"embedding_size": 768},
    ),
}


def disturbed(module: torch.nn.Module) -> torch.nn.Module:
    """Returns a module whose biases and norms are random, too."""
    module = module.eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module


def make(name: str, sizes: dict) -> torch.nn.Module:
    """Returns a model of a class with random weights."""
    of = getattr(transformers, name)
    return disturbed(of(of.config_class(**sizes, attn_implementation="eager")))


def save(model: torch.nn.Module, folder: pathlib.Path, tokens: list[str] = TOKENS) -> None:
    """Writes the folder of a model."""
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}\n')


def tensors(batch: dict[str, np.ndarray], *names: str) -> dict[str, torch.Tensor]:
    """Returns the inputs of a batch by their names in transformers."""
    theirs = {"input_mask": "attention_mask", "segment_ids": "token_type_ids"}
    return {theirs.get(name, name): torch.tensor(batch[name]) for name in names}


def family_batch(tokens: list[str]) -> dict[str, np.ndarray]:
    """Returns a batch in the record format."""
    random = np.random.default_rng(2)
    mask = (np.arange(11) < np.array([[11], [4], [7]])).astype(np.int64)
    ids = random.integers(5, len(tokens), mask.shape)
    ids[:, 0] = tokens.index("[CLS]")
    used = np.arange(PREDICTIONS) < np.array([3, 1, 2])[:, None]
    positions = np.array([[2, 5, 10], [3, 0, 0], [1, 6, 0]])
    labels = np.take_along_axis(ids, positions, 1) * used
    ids[0, [2, 5]], ids[1, 3], ids[2, 1] = tokens.index("[MASK]"), 30, tokens.index("[MASK]")
    return {
        "input_ids": np.where(mask, ids, tokens.index("[PAD]")),
        "input_mask": mask,
        "segment_ids": (np.arange(11) > 2) * mask,
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": used.astype(np.float32),
        "next_sentence_labels": np.array([[0], [1], [1]]),
        "is_replaced": random.integers(0, 2, mask.shape) * mask,
    }


def masked_labels(batch: dict[str, np.ndarray]) -> torch.Tensor:
    """Returns the labels of masked LM as transformers has them: -100 where there is none."""
    labels, used = np.full_like(batch["input_ids"], -100), batch["masked_lm_weights"] > 0
    labels[np.nonzero(used)[0], batch["masked_lm_positions"][used]] = batch["masked_lm_ids"][used]
    return torch.tensor(labels)


def run(model: torch.nn.Module, inputs: dict, batch: dict) -> tuple[dict, torch.Tensor]:
    """Returns the model's outputs by our names, and its loss, for the heads that it has."""
    name, pairs = type(model).__name__, torch.tensor(batch["next_sentence_labels"][:, 0])
    of_tokens = name == "ElectraForPreTraining"
    labels = torch.tensor(batch["is_replaced"]) if of_tokens else masked_labels(batch)
    more = {"AlbertForPreTraining": "sentence_order_label"}
    more |= {"BertForPreTraining": "next_sentence_label"}
    given = inputs | {"labels": labels} | ({more[name]: pairs} if name in more else {})
    outputs = model(**given, output_hidden_states=True)
    logits = getattr(outputs, "prediction_logits", None)
    arrays = {"logits": outputs.logits if logits is None else logits}
    for theirs, ours in (("sop", "sentence_order"), ("seq_relationship", "next_sentence")):
        if (logits := getattr(outputs, f"{theirs}_logits", None)) is not None:
            arrays[f"{ours}_logits"] = logits
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
        outputs = of(**given)
        if task == "QuestionAnswering":
            logits = torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
        else:
            logits = outputs.logits
        arrays[f"tasks/{task}/logits"] = logits.detach().numpy()
        for key, value in of.state_dict().items():
            if key not in theirs:
                arrays[f"tasks/{task}/weights/{key}"] = value.numpy()
    return arrays


def gradients(model: torch.nn.Module, prefix: str) -> dict[str, np.ndarray]:
    """Returns the gradients of the parameters that have one."""
    found = {n: value.grad for n, value in model.named_parameters() if value.grad is not None}
    return {f"{prefix}/{name}": value.numpy() for name, value in found.items()}


def families(root: pathlib.Path) -> None:
    """Writes golden_families."""
    for folder, (name, sizes) in CASES.items():
        torch.manual_seed(1)
        tokens = [*TOKENS]
        if sizes.get("pad_token_id") == 1:
            tokens[:2] = tokens[1::-1]
        model, batch = make(name, sizes), family_batch(tokens)
        has_segments = name.startswith(("Albert", "Bert", "Electra"))
        names = ["input_ids", "input_mask", *(["segment_ids"] if has_segments else [])]
        inputs = tensors(batch, *names)
        outputs, loss = run(model, inputs, batch)
        loss.backward()
        arrays = {f"features/{key}": value for key, value in batch.items()} | outputs
        arrays |= {"loss": loss.detach().numpy()} | gradients(model, "gradients")
        arrays |= task_arrays(name, model, inputs)
        save(model, root / folder, tokens)
        np.savez_compressed(root / folder / "arrays.npz", **arrays)
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


def variants(root: pathlib.Path) -> None:
    """Writes golden_families/variants.npz from the folders beside it."""
    found = {}
    for folder, changes in VARIANTS:
        with tempfile.TemporaryDirectory() as made:
            shutil.copytree(root / folder, made, dirs_exist_ok=True)
            path = pathlib.Path(made) / "config.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | changes))
            of = getattr(transformers, CASES[folder][0])
            model = of.from_pretrained(made, attn_implementation="eager").eval()
        batch = np.load(root / folder / "arrays.npz")
        has_segments = folder in ("albert", "bert", "electra")
        names = ["input_ids", "input_mask", *(["segment_ids"] if has_segments else [])]
        with torch.no_grad():
            outputs = model(**tensors({n: batch[f"features/{n}"] for n in names}, *names))
        logits = getattr(outputs, "prediction_logits", None)
        logits = (outputs.logits if logits is None else logits).numpy()
        places = batch["features/masked_lm_positions"][..., None]
        found[f"{folder} {json.dumps(changes)}"] = np.take_along_axis(logits, places, 1)
    np.savez_compressed(root / "variants.npz", **found)


def replacing_batch() -> dict[str, np.ndarray]:
    """Returns a batch in the record format, and tokens that a generator may have drawn."""
    random = np.random.default_rng(2)
    mask = (np.arange(10) < np.array([[10], [4], [7]])).astype(np.int64)
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


class Replacing:
    """The inputs and labels of a generator and its discriminator, and their arrays."""

    def __init__(self):
        """Makes the batch."""
        self.batch = batch = replacing_batch()
        used = batch["masked_lm_weights"] > 0
        self.places = np.nonzero(used)[0], batch["masked_lm_positions"][used]
        hidden, replaced = batch["original"].copy(), batch["original"].copy()
        hidden[self.places], replaced[self.places] = MASK, batch["sampled"][used]
        self.hidden, self.replaced = torch.tensor(hidden), torch.tensor(replaced)
        self.is_replaced = replaced != batch["original"]
        self.labels = masked_labels(batch)

    def arrays(self, masked_lm, logits: torch.Tensor, detection: torch.Tensor) -> dict:
        """Returns the arrays of a batch, after the backward pass of both losses."""
        # The weight is that of run_pretraining.py and configure_pretraining.py of
        # google-research/electra.
        (masked_lm.loss + 50.0 * detection).backward()
        arrays = {f"features/{name}": value for name, value in self.batch.items()}
        return arrays | {
            "masked_lm_logits": masked_lm.logits.detach().numpy()[self.places],
            "replaced_token_logits": logits.detach().numpy(),
            "is_replaced": self.is_replaced,
            "masked_lm_loss": masked_lm.loss.detach().numpy(),
            "replaced_token_loss": detection.detach().numpy(),
        }


def electra(folder: pathlib.Path) -> None:
    """Writes golden_electra."""
    torch.manual_seed(1)
    sizes = SIZES | {"embedding_size": 16, "num_hidden_layers": 2, "max_position_embeddings": 12}
    narrow = {"hidden_size": 8, "num_attention_heads": 1, "intermediate_size": 32}
    discriminator = make("ElectraForPreTraining", sizes)
    generator = make("ElectraForMaskedLM", sizes | narrow)
    generator.electra.embeddings = discriminator.electra.embeddings
    generator.tie_weights()
    of = Replacing()
    inputs = tensors(of.batch, "input_mask", "segment_ids")
    masked_lm = generator(of.hidden, labels=of.labels, **inputs)
    labels = torch.tensor(of.is_replaced.astype(np.int64))
    detection = discriminator(of.replaced, labels=labels, **inputs)
    arrays = of.arrays(masked_lm, detection.logits, detection.loss)
    for name, model in (("generator", generator), ("discriminator", discriminator)):
        arrays |= gradients(model, f"gradients/{name}")
    save(discriminator, folder)
    save(generator, folder / "generator")
    np.savez_compressed(folder / "arrays.npz", **arrays)


class DetectionHead(torch.nn.Module):
    """LMMaskPredictionHead of the original."""

    def __init__(self, config):
        """Makes the layers."""
        super().__init__()
        width = config.hidden_size
        self.dense = torch.nn.Linear(width, width)
        self.LayerNorm = torch.nn.LayerNorm(width, config.layer_norm_eps)
        self.classifier = torch.nn.Linear(width, 1)

    def forward(self, states):
        """Returns the logits."""
        states = self.LayerNorm(states[:, 0, :].unsqueeze(-2) + states)
        return self.classifier(functional.gelu(self.dense(states))).squeeze(-1)


def deberta(folder: pathlib.Path) -> None:
    """Writes golden_deberta_rtd."""
    embeddings = "embeddings.word_embeddings.weight"
    torch.manual_seed(1)
    sizes = SIZES | DEBERTA_V3 | {"max_position_embeddings": 12, "position_buckets": 8}
    discriminator = make("DebertaV2Model", sizes | {"num_hidden_layers": 4})
    generator = make("DebertaV2ForMaskedLM", sizes | {"num_hidden_layers": 2})
    head = disturbed(DetectionHead(discriminator.config))
    shared = generator.deberta.embeddings.word_embeddings.weight
    delta = torch.nn.Parameter(0.2 * torch.randn_like(shared))
    of = Replacing()
    mask = torch.tensor(of.batch["input_mask"])
    masked_lm = generator(of.hidden, attention_mask=mask, labels=of.labels)
    states = torch.func.functional_call(
        discriminator,
        {embeddings: shared.detach() + delta},
        (of.replaced,),
        {"attention_mask": mask},
    ).last_hidden_state
    logits = head(states)
    detection = functional.binary_cross_entropy_with_logits(
        logits[mask > 0], torch.tensor(of.is_replaced).float()[mask > 0]
    )
    arrays = of.arrays(masked_lm, logits, detection) | gradients(generator, "gradients/generator")
    found = {f"deberta.{name}": value for name, value in discriminator.named_parameters()}
    found[f"deberta.{embeddings}"] = delta
    found |= {f"mask_predictions.{name}": value for name, value in head.named_parameters()}
    for name, value in found.items():
        arrays[f"gradients/discriminator/{name}"] = value.grad.numpy()
    with torch.no_grad():
        found[f"deberta.{embeddings}"] = shared + delta
    weights = {name: value.detach().contiguous() for name, value in found.items()}
    save(discriminator, folder)
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    save(generator, folder / "generator")
    np.savez_compressed(folder / "arrays.npz", **arrays)


def distillation(folder: pathlib.Path) -> None:
    """Writes golden_distillation."""
    torch.manual_seed(1)
    temperature = 2.0
    factors = {"masked_lm": 2.0, "next_sentence": 2.0, "distillation": 5.0, "cosine": 1.0}
    sizes = SIZES | {"max_position_embeddings": 12}
    student = make("BertForPreTraining", sizes | {"num_hidden_layers": 2})
    answering = make("BertForMaskedLM", sizes | {"num_attention_heads": 4})
    batch = replacing_batch() | {"next_sentence_labels": np.array([[0], [1], [1]])}
    used = batch["masked_lm_weights"] > 0
    places = np.nonzero(used)[0], batch["masked_lm_positions"][used]
    inputs = tensors(batch, "input_ids", "input_mask", "segment_ids")
    output = student(**inputs, output_hidden_states=True)
    with torch.no_grad():
        shown = answering(**inputs, output_hidden_states=True)
    logits = output.prediction_logits[places]
    states = [each.hidden_states[-1][inputs["attention_mask"] > 0] for each in (output, shown)]
    losses = {
        "masked_lm": functional.cross_entropy(logits, torch.tensor(batch["masked_lm_ids"][used])),
        "next_sentence": functional.cross_entropy(
            output.seq_relationship_logits, torch.tensor(batch["next_sentence_labels"][:, 0])
        ),
        "distillation": temperature**2
        * functional.kl_div(
            functional.log_softmax(logits / temperature, dim=-1),
            functional.softmax(shown.logits[places] / temperature, dim=-1),
            reduction="batchmean",
        ),
        "cosine": functional.cosine_embedding_loss(*states, torch.ones(len(states[0]))),
    }
    loss = sum(factors[of] * each for of, each in losses.items())
    loss.backward()
    arrays = {f"features/{name}": value for name, value in batch.items()}
    arrays |= {f"answers/{of}_loss": value.detach().numpy() for of, value in losses.items()}
    arrays |= {"answers/loss": loss.detach().numpy()} | gradients(student, "answers/gradients")
    for model, name in ((student, "student"), (answering, "answers")):
        save(model, folder / name)
    np.savez_compressed(folder / "arrays.npz", **arrays)


def main(root: pathlib.Path) -> None:
    """Writes all folders."""
    for make_folders, name in (
        (families, "golden_families"),
        (variants, "golden_families"),
        (electra, "golden_electra"),
        (deberta, "golden_deberta_rtd"),
        (distillation, "golden_distillation"),
    ):
        (root / name).mkdir(parents=True, exist_ok=True)
        make_folders(root / name)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
