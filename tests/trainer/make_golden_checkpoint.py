"""Makes folders of small models of transformers, and what they compute.

    python make_golden_checkpoint.py BertForPreTraining golden_checkpoint
    python make_golden_checkpoint.py BertForMaskedLM golden_masked_lm

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
LENGTH = 10


def main() -> None:
    """Writes model.safetensors, pytorch_model.bin, config.json, vocab.txt, outputs.npz."""
    folder = pathlib.Path(sys.argv[2])
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(TOKENS),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=12,
        initializer_range=0.5,
    )
    model = getattr(transformers, sys.argv[1])(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # biases and norms too
    model.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    random = np.random.default_rng(2)
    ids = random.integers(0, len(TOKENS), (3, LENGTH))
    mask = (np.arange(LENGTH) < np.array([10, 4, 7])[:, None]).astype(np.int64)
    segments = random.integers(0, 2, ids.shape)
    with torch.no_grad():
        output = model(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(mask),
            token_type_ids=torch.tensor(segments),
        )
    logits = {"masked_lm_logits": output[0].numpy()}
    if "seq_relationship_logits" in output:
        logits["next_sentence_logits"] = output.seq_relationship_logits.numpy()
    np.savez_compressed(
        folder / "outputs.npz", input_ids=ids, input_mask=mask, segment_ids=segments, **logits
    )


if __name__ == "__main__":
    main()
