"""Makes golden_sentences/: small folders of sentence-transformers, and their embeddings of texts.

    python make_golden_sentences.py golden_sentences

Each folder is a BERT with random weights and another pooling; embeddings.json has the vectors of
the texts by folder. In `last_two` they are the mean of the hidden states of the last two layers
that `transformers` gives, which is no module of sentence-transformers.
Needs torch, transformers and sentence-transformers (made with 2.15.0, 5.23.0 and 6.2.0), which the
tests do not.
"""

import json
import pathlib
import string
import sys

import torch
import transformers
from sentence_transformers import SentenceTransformer, models

TEXTS = [
    "A river, a road.",
    "b",
    "The quick brown fox jumps over the lazy dog and the other dog",
    "Ein Fluß über Å",
    "a b c d e f g h i j k l m n o p",
]
LETTERS = [".", ",", *string.ascii_lowercase, *(f"##{c}" for c in string.ascii_lowercase)]
MAX_SEQ_LENGTH = 12


def make_encoder(folder: pathlib.Path) -> None:
    """Writes a BERT of two layers with random weights, and its tokenizer."""
    folder.mkdir(parents=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS]
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary))
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=20,
        initializer_range=0.3,
    )
    torch.manual_seed(1)
    transformers.BertModel(config).eval().save_pretrained(folder)
    ids = {token: number for number, token in enumerate(vocabulary)}
    tokenizer = transformers.BertTokenizer(vocab=ids, do_lower_case=True)
    tokenizer.save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary))


def mean_of_last_two(encoder: str) -> list:
    """Returns the mean over the tokens of the mean of the last two layers."""
    model = transformers.BertModel.from_pretrained(encoder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    batch = tokenizer(
        TEXTS, padding=True, truncation=True, max_length=MAX_SEQ_LENGTH, return_tensors="pt"
    )
    with torch.no_grad():
        states = model(**batch, output_hidden_states=True).hidden_states
    mask = batch["attention_mask"][..., None].float()
    vectors = ((states[-1] + states[-2]) / 2 * mask).sum(1) / mask.sum(1)
    return vectors.tolist()


def main(folder: pathlib.Path) -> None:
    """Writes the folders and embeddings.json."""
    embeddings: dict[str, list] = {}
    make_encoder(folder / "encoder")
    for name, mode, is_normalized, prompts in (
        ("mean", "mean", True, {}),
        ("cls", "cls", False, {"prompts": {"query": "q: "}, "default_prompt_name": "query"}),
    ):
        encoder = models.Transformer(str(folder / "encoder"), max_seq_length=MAX_SEQ_LENGTH)
        parts = [encoder, models.Pooling(16, pooling_mode=mode)]
        parts += [models.Normalize()] if is_normalized else []
        model = SentenceTransformer(modules=parts, device="cpu", **prompts)
        model.save(str(folder / name), create_model_card=False)
        embeddings[name] = model.encode(TEXTS).tolist()
    embeddings["last_two"] = mean_of_last_two(str(folder / "encoder"))
    content = {"texts": TEXTS, "embeddings": embeddings}
    (folder / "embeddings.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
