"""Hugging Face's side of local_attention.py: an attention layer of ModernBERT on torch."""

import json
import os
import resource
import statistics
import sys
import time

import torch
import transformers


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Prints the seconds and the bytes that a layer takes for each token, as JSON."""
    kind = sys.argv[1]
    length, tokens, width, repeats = map(int, sys.argv[2:])
    torch.set_num_threads(os.cpu_count())
    config = transformers.ModernBertConfig(
        vocab_size=8,
        hidden_size=width,
        num_attention_heads=max(width // 64, 1),
        intermediate_size=8,
        num_hidden_layers=2,
        max_position_embeddings=length,
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0),
        **dict.fromkeys(("cls_token_id", "sep_token_id"), 0),
    )
    # The layer by itself needs the masks and the angles of the model, which has two such layers.
    model = transformers.ModernBertModel(config)
    index = 0 if kind == "global" else 1
    layer, name = model.layers[index].attn, config.layer_types[index]

    def gradients(sequences: int, length: int) -> None:
        x = torch.randn(sequences, length, width, requires_grad=True)
        places = torch.arange(length)
        mask = None
        if kind == "local":
            mask = ((places[:, None] - places).abs() <= config.sliding_window)[None, None]
        angles = model.rotary_emb(x, places[None], name)
        output, _ = layer(x, position_embeddings=angles, attention_mask=mask)
        output.square().sum().backward()

    gradients(1, 16)
    before, seconds = _peak_bytes(), []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        gradients(tokens // length, length)
        seconds.append(time.perf_counter() - started)
    print(
        json.dumps(
            {
                "seconds": statistics.median(seconds[1:]) / tokens,
                "bytes": (_peak_bytes() - before) / tokens,
            }
        )
    )


if __name__ == "__main__":
    main()
