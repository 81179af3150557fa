"""Small tokenizers with the steps of five public ones, trained by the `tokenizers` library.

The steps are those of the tokenizer.json that the models are published with. Two of them fold
characters with a table of their own; NFKC stands in for it here, which folds nearly the same.
"""

import json
from collections.abc import Iterable

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

ROBERTA, MODERNBERT, ALBERT, XLMR, BERT = "roberta", "modernbert", "albert", "xlm-r", "bert"
KINDS = (ROBERTA, MODERNBERT, ALBERT, XLMR, BERT)
BERT_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def train(kind: str, texts: Iterable[str], size: int) -> Tokenizer:
    """Returns a tokenizer of so many tokens with the steps of a public one."""
    tokenizer, tokens = _STEPS[kind]()
    shared = {"vocab_size": size, "special_tokens": tokens, "show_progress": False}
    if kind in (ROBERTA, MODERNBERT):
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(initial_alphabet=alphabet, **shared)
    elif kind == BERT:
        trainer = trainers.WordPieceTrainer(**shared)
    else:
        unknown = next(token for token in tokens if "unk" in token.lower())
        trainer = trainers.UnigramTrainer(unk_token=unknown, **shared)
    tokenizer.train_from_iterator(texts, trainer)
    if kind in (ALBERT, XLMR):
        # Of two segmentations with the same sum of scores the library takes either.
        content = json.loads(tokenizer.to_str())
        for number, piece in enumerate(content["model"]["vocab"]):
            piece[1] -= 1e-3 * number**0.5
        tokenizer = Tokenizer.from_str(json.dumps(content))
    if tokens is ROBERTA_TOKENS:
        tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = _frame(kind, tokenizer)
    return tokenizer


def _frame(kind: str, tokenizer: Tokenizer) -> processors.PostProcessor:
    def token(name: str) -> tuple[str, int]:
        return name, tokenizer.token_to_id(name)

    if kind == ROBERTA:
        return processors.RobertaProcessing(token("</s>"), token("<s>"))
    if kind == XLMR:
        return processors.TemplateProcessing(
            single="<s> $A </s>",
            pair="<s> $A </s> </s> $B </s>",
            special_tokens=[token("<s>"), token("</s>")],
        )
    return processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[token("[CLS]"), token("[SEP]")],
    )


def _roberta() -> tuple[Tokenizer, list[str]]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, ROBERTA_TOKENS


def _modernbert() -> tuple[Tokenizer, list[str]]:
    tokenizer, _ = _roberta()
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer, BERT_TOKENS


def _albert() -> tuple[Tokenizer, list[str]]:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace("``", '"'),
            normalizers.Replace("''", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer, BERT_TOKENS


def _xlmr() -> tuple[Tokenizer, list[str]]:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer, ROBERTA_TOKENS


def _bert() -> tuple[Tokenizer, list[str]]:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer, BERT_TOKENS


_STEPS = {
    ROBERTA: _roberta,
    MODERNBERT: _modernbert,
    ALBERT: _albert,
    XLMR: _xlmr,
    BERT: _bert,
}
