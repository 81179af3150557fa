"""Names and layouts of this package's variables in other systems. Pure functions.

In this package the name of a variable is its Keras path, such as
`bert/encoder/layer_0/attention/self/query/kernel`.
"""

import re

# Path -> name in the original release, and whether to transpose. Kernels are [input, output] here
# and in TensorFlow, and [output, input] in PyTorch. These two kernels of the original release are
# also [output, input]: `get_next_sentence_output` and run_classifier.py multiply them transposed.
_ORIGINAL_HEADS = {
    "cls/seq_relationship/kernel": ("cls/seq_relationship/output_weights", True),
    "cls/seq_relationship/bias": ("cls/seq_relationship/output_bias", False),
    # run_classifier.py, create_model.
    "classifier/kernel": ("output_weights", True),
    "classifier/bias": ("output_bias", False),
}

# The heads of other pair tasks have the form of that of next sentence prediction, and take its
# place in other systems.
_PAIR_HEAD = re.compile(r"^cls/(sentence_order|copy)/")

# Names of variables in other systems that no model needs: optimizers' moments, step counters,
# position numbers, and the decoder, which is tied to the word embeddings.
_NOT_OURS = re.compile(
    r".*/(adam|lamb)_[mv]|.*/LAMB(_\d)?|global_step|.*position_ids"
    r"|((cls\.)?predictions|lm_head)\.decoder\.(weight|bias)"
    r"|(vocab_projector|generator_lm_head|decoder)\.weight"
)


def original_name(path: str) -> tuple[str, bool]:
    """Returns a variable's name in the original release's checkpoints, and whether to transpose."""
    path = _PAIR_HEAD.sub("cls/seq_relationship/", path)
    if path in _ORIGINAL_HEADS:
        return _ORIGINAL_HEADS[path]
    return path.replace("layer_norm", "LayerNorm"), False


def hugging_face_name(path: str) -> tuple[str, bool]:
    """Returns a variable's name in Hugging Face's BertForPreTraining, and whether to transpose."""
    if path == "cls/predictions/output_bias":
        return "cls.predictions.bias", False
    path = _PAIR_HEAD.sub("cls/seq_relationship/", path)
    name = re.sub(r"/layer_(\d+)/", r"/layer/\1/", path).replace("layer_norm", "LayerNorm")
    owner, _, leaf = name.replace("/", ".").rpartition(".")
    if leaf.endswith("_embeddings"):
        return f"{owner}.{leaf}.weight", False
    leaf = {"kernel": "weight", "gamma": "weight", "beta": "bias", "bias": "bias"}[leaf]
    return f"{owner}.{leaf}", path.endswith("/kernel")


# Parts of encoders, as bare models name them.
_PARTS = ("embeddings.", "encoder.", "pooler.", "transformer.", "layers.", "final_norm.")
_PARTS += ("embeddings_project.",)


def plain_hugging_face_name(name: str, prefix: str = "bert.") -> str:
    """Returns a variable's present name in the class with the heads of pre-training.

    Args:
      name: name that an old version or a bare model, such as BertModel, has written.
      prefix: beginning of the names of the encoder's variables.
    """
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    # The head of DeBERTa's original release, which `transformers` writes with `legacy` false.
    name = re.sub(r"^lm_predictions\.lm_head\.bias$", "cls.predictions.bias", name)
    name = re.sub(r"^lm_predictions\.lm_head\.", "cls.predictions.transform.", name)
    return prefix + name if name.startswith(_PARTS) else name


def is_of_no_model(name: str) -> bool:
    """Returns whether no model needs a variable of another system, so that no note is due."""
    return _NOT_OURS.fullmatch(name) is not None
