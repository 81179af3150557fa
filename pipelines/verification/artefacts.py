"""Traces of faulty input in the text of records: markup, entities, words of another language.

They are found in finished records by their vocabulary, whoever made them. Their counts add up over
batches, files and workers, and become figures and warnings. Pure.

Legend: N rows, L max_seq_length, V tokens of the vocabulary.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from html.entities import html5
from typing import Any, NamedTuple

import numpy as np

from beambert.pipelines.records.contract import RecordsInfo, label_words
from beambert.pipelines.records.figures import MadeWith
from beambert.pipelines.tokenizers.vocabulary import NO_ID, SPECIAL_TOKENS, UNKNOWN, Vocabulary

# Share of the tokens that continue a word in a record of broken words.
BROKEN_SHARE = 0.4
# Kind of artefact in the text -> what the records with it contain.
ARTEFACTS = {
    "entities": "an HTML entity",
    "replacements": "characters in place of bytes that could not be decoded",
    "markup": "HTML tags or wiki markup",
}
# Kind of record whose words are broken up.
BROKEN = "broken_words"
# The patterns are for text with a space between all tokens, and a line feed for special ones.
_ENTITY = re.compile(r"& ?(# ?(?:\d+|x[0-9a-f]+)|\w+) ?;", re.IGNORECASE)
# What does not occur in prose: templates and tables of wikis, end tags, wiki links (synopses of
# commands have [[--option]] and [[user@]host], which are not links), and elements of HTML and
# MediaWiki. Of those with one letter only the commonest are here, because "<" and ">" also compare
# variables.
_MARKUP = re.compile(
    r"\{ ?[{|]|[}|] ?\}|< ?/|\[ ?\[ ?\w[^\[\]<>=@\n]*\] ?\]"
    r"|< ?(?:p|br|hr|div|span|ref|img|table|tbody|tr|td|th|ul|ol|li|dl|dt|dd|sub|sup|small|big|font"
    r"|center|em|strong|pre|code|math|nowiki|gallery|blockquote|script|style|h[1-6]|unk|!)"
    r"(?![a-z0-9])[^<>\n]{0,100}>",
    re.IGNORECASE,
)
# U+FFFD, or two of its three characters in UTF-8 that was read as Latin-1 (the first is a letter).
_REPLACEMENT = re.compile("\ufffd|¿ ?½")
# Characters that one of these has.
_IN_ARTEFACTS = frozenset("&<{}[|\ufffd¿")
# Number of characters shown as an example before and after an artefact.
_EXAMPLE_CHARACTERS = 30

# WikiExtractor leaves wiki markup in 0.15 % of the records of English Wikipedia. Entities that were
# not decoded are in 3.7 %. The share is that of records of `_USUAL_LENGTH` tokens.
MOST_ARTEFACTS, _USUAL_LENGTH = 0.005, 128
# At most 0.15 % of the records of English Wikipedia have words that an English vocabulary breaks
# up. Of German, French or Finnish records nearly all do.
MOST_BROKEN = 0.01
# A model that only distinguishes the sources recognizes these random next pairs. If they are 10 %,
# it is right in 55 % of the cases, compared with 50 % by chance.
MOST_FROM_ANOTHER_SOURCE = 0.1


@dataclasses.dataclass(frozen=True, eq=False)
class TokenTable:
    """The properties of a vocabulary that the counts need.

    Attributes:
      tokens: tokens by id, as word pieces.
      unknown: id of [UNK], or of [PAD] if the vocabulary spells all words.
      begins: bool [V], true for tokens with a character that artefacts have.
      is_special: bool [V], true for special tokens except for [UNK].
      continues: bool [V], true for pieces that continue a word.
    """

    tokens: tuple[str, ...]
    unknown: int
    begins: np.ndarray
    is_special: np.ndarray
    continues: np.ndarray

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "TokenTable":
        """Returns the table of a vocabulary."""
        tokens, ids = vocabulary.pieces, vocabulary.special
        return cls(
            tokens,
            ids.padding if ids.unknown == NO_ID else ids.unknown,
            np.array(
                [not (_IN_ARTEFACTS.isdisjoint(t) or t.startswith("[") and t[1:]) for t in tokens]
            ),
            np.array([t in SPECIAL_TOKENS and t != UNKNOWN for t in tokens]),
            np.array([len(token) > 2 and token.startswith("##") for token in tokens]),
        )


class Artefact(NamedTuple):
    """The records with a kind of artefact.

    Attributes:
      records: number of records.
      path: path of the first file that has one.
      example: an artefact there and the text around it.
    """

    records: int
    path: str
    example: str


def find_artefacts(
    restored_NL: np.ndarray, table: TokenTable, path: str = ""
) -> dict[str, Artefact]:
    """Returns kind -> the records with it, for each kind of `ARTEFACTS`, and `BROKEN`.

    Args:
      restored_NL: ids before masking, see `statistics.restore_ids`.
      table: table of the vocabulary.
      path: path of the records' file.
    """
    is_known_NL = (restored_NL >= 0) & (restored_NL < len(table.tokens))
    ids_NL = np.where(is_known_NL, restored_NL, table.unknown)
    found: dict[str, list[str]] = {}
    for row in np.flatnonzero(table.begins[ids_NL].any(axis=1)):
        pieces = ("\n" if table.is_special[i] else table.tokens[i] for i in ids_NL[row].tolist())
        text = " ".join(pieces).replace(" ##", "")
        for kind, match in artefacts_in(text).items():
            first = max(0, match.start() - _EXAMPLE_CHARACTERS)
            around = text[first : match.end() + _EXAMPLE_CHARACTERS]
            found.setdefault(kind, []).append(" ".join(around.split()))
    tokens_N = np.count_nonzero(~table.is_special[ids_NL], axis=1)
    broken_N = np.count_nonzero(table.continues[ids_NL], axis=1) > BROKEN_SHARE * tokens_N
    if broken := int(np.count_nonzero(broken_N)):
        found[BROKEN] = [""] * broken
    return {kind: Artefact(len(texts), path, texts[0]) for kind, texts in found.items()}


def add_artefacts(parts: Iterable[Mapping[str, Artefact]]) -> dict[str, Artefact]:
    """Returns the sum of results of `find_artefacts`."""
    total: dict[str, Artefact] = {}
    for part in parts:
        for kind, found in part.items():
            before = total.setdefault(kind, found._replace(records=0))
            first = min(before, found, key=lambda each: each.path)
            total[kind] = first._replace(records=before.records + found.records)
    return total


def artefacts_in(text: str) -> dict[str, re.Match[str]]:
    """Returns kind -> the first artefact of a text whose tokens have spaces between them."""
    entities = (m for m in _ENTITY.finditer(text) if m[1][0] == "#" or f"{m[1]};" in html5)
    found = {
        "entities": next(entities, None),
        "replacements": _REPLACEMENT.search(text),
        "markup": _MARKUP.search(text),
    }
    return {kind: match for kind, match in found.items() if match}


def text_figures(
    found: Mapping[str, Artefact] | None, records: int, info: RecordsInfo | None
) -> dict[str, Any]:
    """Returns name -> shares of the records; None for what is unknown.

    Args:
      found: the artefacts; None without a vocabulary.
      records: number of records.
      info: info.json of the records, if there is one.
    """
    shares: dict[str, Any] = dict.fromkeys(f"{kind}_share" for kind in (*ARTEFACTS, BROKEN))
    if found is not None and records:
        for kind in (*ARTEFACTS, BROKEN):
            number = found[kind].records if kind in found else 0
            shares[f"{kind}_share"] = round(number / records, 6)
    counts = info.counts if info else {}
    from_another = None
    if "random_next_other_source" in counts and counts.get("random_next"):
        from_another = round(counts["random_next_other_source"] / counts["random_next"], 6)
    return shares | {"random_next_other_source_share": from_another}


def text_warnings(
    found: Mapping[str, Artefact] | None,
    records: int,
    info: RecordsInfo | None,
    made_with: MadeWith,
    length: int,
) -> list[str]:
    """Returns the warnings about the text of a folder's records of `length` tokens."""
    warnings, shares = [], text_figures(found, records, info)
    from_another = shares["random_next_other_source_share"] or 0.0
    is_remedied = info is not None and info.parameters.get("random_next") == "source"
    if from_another > MOST_FROM_ANOTHER_SOURCE and not is_remedied:
        warnings.append(
            f"in {from_another:.1%} of the {label_words(made_with.pairs)[1]} pairs B is of another "
            "--input than A, so a model that only distinguishes the sources is right in "
            f"{0.5 + from_another / 2:.1%} of the cases; if their texts differ in kind, make the "
            "records with --random_next=source"
        )
    documents: Mapping[str, Any] = info.counts.get("documents", {}) if info else {}
    number, read = documents.get("with_replacement_characters", 0), documents.get("read", 0)
    if number > MOST_ARTEFACTS * read:
        warnings.append(
            f"{number:,} of {read:,} documents had U+FFFD in place of characters that could not be "
            "decoded, and these were dropped from their words; fix the encoding of the input"
        )
    # Longer records have more artefacts.
    most = 1 - (1 - MOST_ARTEFACTS) ** max(1.0, length / _USUAL_LENGTH)
    warnings += [
        f"{share:.1%} of the records contain {what} (“{found[kind].example}”), which the model "
        "would learn as text; check --format, or clean the input"
        for kind, what in ARTEFACTS.items()
        if (share := shares[f"{kind}_share"] or 0.0) > most
    ]
    if (share := shares[f"{BROKEN}_share"] or 0.0) > MOST_BROKEN:
        warnings.append(
            f"in {share:.1%} of the records more than {BROKEN_SHARE:.0%} of the tokens continue a "
            "word, as text of another language than the vocabulary's does, or with a small "
            "vocabulary that of a language with long words; leave documents of another language "
            "out, or learn a larger vocabulary from this text with `beambert vocab --vocab_size=`"
        )
    return warnings
