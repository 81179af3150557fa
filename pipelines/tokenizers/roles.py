"""Which tokens of a tokenizer.json have the roles of [PAD], [UNK], [CLS], [SEP] and [MASK]. Pure.

The roles follow from how the tokenizer frames a text and a pair of texts, from the names in
tokenizer_config.json, or from the usual names.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.errors import InputError
from beambert.pipelines.wordpiece.vocabulary import NO_ID, SpecialIds

# Role -> its names in tokenizer_config.json, and the names that tokens of that role usually have:
# those of BERT, and those of RoBERTa, XLM-R and T5.
ROLES = {
    "padding": (("pad_token",), ("[PAD]", "<pad>")),
    "unknown": (("unk_token",), ("[UNK]", "<unk>")),
    "classify": (("cls_token", "bos_token"), ("[CLS]", "<s>", "<cls>")),
    "separate": (("sep_token", "eos_token"), ("[SEP]", "</s>", "<sep>")),
    "mask": (("mask_token",), ("[MASK]", "<mask>")),
}


@dataclasses.dataclass(frozen=True)
class Frame:
    """How a tokenizer frames texts, as far as it is [CLS] text [SEP] and [CLS] A [SEP] … B [SEP].

    Attributes:
      classify: id before the first text.
      separate: id behind each text.
      separators: number of separating tokens between two texts, 1 or more.
      second_segment: segment id of the second text.
    """

    classify: int
    separate: int
    separators: int
    second_segment: int


def frame_of(
    one: Sequence[tuple[int, int | None]], two: Sequence[tuple[int, int | None, int]]
) -> Frame | None:
    """Returns the frame that examples show; None if it is another one, or there is none.

    Args:
      one: id, and number of the text that it belongs to (None for a special token), of each token
        of a framed text.
      two: the same of a pair of texts, and the segment id of each token.
    """
    alone, texts = [owner for _, owner in one], [owner for _, owner, _ in two]
    if 0 not in alone or alone[0] is not None or alone[-1] is not None or 1 not in texts:
        return None
    inside = len(alone) - 2
    last = len(texts) - 1
    begins = texts.index(1)
    separators = begins - 1 - inside
    classify, separate = one[0][0], one[-1][0]
    ids = [(number, owner) for number, owner, _ in two]
    framed = [*one, *[(separate, None)] * (separators - 1), *ids[begins:last], (separate, None)]
    if alone[1:-1] != [0] * inside or separators < 1 or ids != framed:
        return None
    segments = [segment for _, _, segment in two]
    second = segments[begins]
    if segments != [0] * begins + [second] * (len(segments) - begins):
        return None
    return Frame(classify, separate, separators, second)


def find_roles(
    ids: Mapping[str, int], frame: Frame | None, config: Mapping[str, Any], name: str
) -> SpecialIds:
    """Returns the ids of the special tokens.

    Args:
      ids: id of each token.
      frame: how the tokenizer frames texts.
      config: content of tokenizer_config.json; empty without one.
      name: flag and path of the tokenizer, for messages.

    Raises:
      InputError: a role has no token, or two roles have the same one. A tokenizer that spells every
        text needs none for unknown words.
    """
    found: dict[str, int] = {}
    for role, (settings, usual) in ROLES.items():
        of_frame = getattr(frame, role, None)
        named = [
            token for setting in settings if (token := _content(config.get(setting))) is not None
        ]
        tokens = named[:1] or [token for token in usual if token in ids]
        found[role] = of_frame if of_frame is not None else ids.get(next(iter(tokens), ""), NO_ID)
    missing = [role for role, number in found.items() if number == NO_ID and role != "unknown"]
    if missing:
        role = missing[0]
        raise InputError(
            f"{name}: has no token for the role {role}; add one such as {ROLES[role][1][0]} to the "
            f"tokenizer, or name it as {ROLES[role][0][0]} in tokenizer_config.json"
        )
    needed = {role: number for role, number in found.items() if role != "unknown"}
    if len(set(needed.values())) < len(needed):
        numbers = list(needed.values())
        twice = next(number for number in numbers if numbers.count(number) > 1)
        same = " and ".join(role for role, number in needed.items() if number == twice)
        raise InputError(
            f"{name}: has one token for the roles {same}; give each a token of its own in "
            "tokenizer_config.json"
        )
    return SpecialIds(**found)


def _content(value: Any) -> str | None:
    """Returns the token of a setting, which is written as text or as an object."""
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else None
