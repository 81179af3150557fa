"""Makes golden_denoising.json: sentence-transformers' loss of TSDAE, with some of its gradients.

    python make_golden_denoising.py golden_denoising.json

A small BERT with random weights is the encoder, and tied to it the decoder of
`DenoisingAutoEncoderLoss`, without dropout. The JSON has the weights by their names in
`transformers`, the ids of what is left of two texts and of the texts, the loss, and its gradients.
Needs torch, transformers and sentence-transformers (made with 2.15.0, 5.23.0 and 6.2.0), which the
tests do not.
"""

import json
import pathlib
import sys
import tempfile

import torch
import transformers
from sentence_transformers import SentenceTransformer, models
from sentence_transformers.sentence_transformer import losses

SIZES = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 10,
}
# [PAD] is 0, [CLS] 2 and [SEP] 3.
TEXTS = [[2, 7, 8, 9, 10, 11, 3], [2, 12, 7, 13, 3, 0, 0]]
NOISY = [[2, 8, 11, 3], [2, 13, 3, 0]]


def main(output: pathlib.Path) -> None:
    """Writes the values."""
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as folder:
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map("w{}".format, range(15))]
        pathlib.Path(folder, "vocab.txt").write_text("\n".join(words) + "\n")
        transformers.BertTokenizerFast(f"{folder}/vocab.txt").save_pretrained(folder)
        config = transformers.BertConfig(**SIZES)
        transformers.BertForMaskedLM(config).save_pretrained(folder)
        encoder = models.Transformer(folder)
        pooling = models.Pooling(SIZES["hidden_size"])
        model = SentenceTransformer(modules=[encoder, pooling], device="cpu")
        loss = losses.DenoisingAutoEncoderLoss(model, folder, tie_encoder_decoder=True)
    bert, decoder = encoder.auto_model, loss.decoder
    of_encoder, of_decoder = dict(bert.named_parameters()), dict(decoder.named_parameters())
    named = {f"bert.{name}": each for name, each in of_encoder.items() if "pooler" not in name}
    parts = ("crossattention.self.value", "crossattention.output", "cls.predictions")
    named |= {
        name: each for name, each in of_decoder.items() if any(part in name for part in parts)
    }
    named.pop("cls.predictions.decoder.weight", None)
    named.pop("cls.predictions.decoder.bias", None)
    with torch.no_grad():
        for each in named.values():
            each.copy_(torch.round(each + 0.3 * torch.randn(each.shape), decimals=2))
    # The two share their weights, not only their values.
    pointer = decoder.bert.encoder.layer[1].attention.self.key.weight.data_ptr()
    assert pointer == bert.encoder.layer[1].attention.self.key.weight.data_ptr()
    table = decoder.get_output_embeddings().weight.data_ptr()
    assert table == bert.embeddings.word_embeddings.weight.data_ptr()

    def features(ids: list[list[int]]) -> dict[str, torch.Tensor]:
        ids = torch.tensor(ids)
        return {"input_ids": ids, "attention_mask": (ids > 0).long()}

    loss.eval()
    value = loss([features(NOISY), features(TEXTS)], None)
    value.backward()
    found = {
        "sizes": SIZES,
        "weights": {name: each.tolist() for name, each in named.items()},
        "texts": TEXTS,
        "noisy": NOISY,
        "loss": value.item(),
        "gradients": {name: each.grad.tolist() for name, each in named.items()},
    }

    def rounded(value):
        if isinstance(value, float):
            return float(f"{value:.6g}")
        if isinstance(value, dict):
            return {name: rounded(each) for name, each in value.items()}
        return [rounded(each) for each in value] if isinstance(value, list) else value

    output.write_text(json.dumps(rounded(found)) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
