"""Traces of faulty input in the text of records: markup, entities, other scripts.

The counts come from finished records and their vocabulary, whoever made them. They add up over
batches, files and workers, and become figures and warnings. Pure.

Legend: N rows, L max_seq_length, V tokens of the vocabulary.
"""

import dataclasses
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from html.entities import html5
from typing import Any

import numpy as np

from beambert.pipelines.records.contract import RecordsInfo, label_words
from beambert.pipelines.records.figures import MadeWith
from beambert.pipelines.tokenizers.vocabulary import NO_ID, SPECIAL_TOKENS, UNKNOWN, Vocabulary

# Kind of artefact -> what the records with it contain.
ARTEFACTS = {
    "entities": "an HTML entity",
    "replacements": "characters in place of bytes that could not be decoded",
    "markup": "HTML tags or wiki markup",
}
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

# Least number of words of a record with a main script, and share of the tokens that continue a word
# in a record of broken words.
_FEWEST_WORDS = 8
BROKEN_SHARE = 0.4
# The names of characters begin with the name of their script. Chinese and Japanese share theirs.
_HAN, _KANA = "CJK", ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC", "BOPOMOFO")
NO_WORD, UNKNOWN_WORD = "(none)", "[UNK]"

# WikiExtractor leaves wiki markup in 0.15 % of the records of English Wikipedia. Entities that were
# not decoded are in 3.7 %.
MOST_ARTEFACTS = 0.005
# At most 0.15 % of the records of English Wikipedia are mainly of another script, or of words that
# an English vocabulary breaks up. Of German, French or Finnish records nearly all are.
MOST_FOREIGN = 0.01
# A model that only distinguishes the sources recognizes these random next pairs. If they are 10 %,
# it is right in 55 % of the cases, compared with 50 % by chance.
MOST_FROM_ANOTHER_SOURCE = 0.1
_SCRIPTS_SHOWN = 4
# Length of the records for which `MOST_ARTEFACTS` is given.
_USUAL_LENGTH = 128


@dataclasses.dataclass(frozen=True, eq=False)
class TokenTable:
    """The properties of a vocabulary that the counts need.

    Attributes:
      tokens: tokens by id, as word pieces.
      unknown: id of [UNK], or of [PAD] if the vocabulary spells all words.
      begins: bool [V], true for tokens with a character that artefacts have.
      is_special: bool [V], true for special tokens except for [UNK].
      continues: bool [V], true for pieces that continue a word.
      scripts: names of the scripts; the first two are `NO_WORD` and `UNKNOWN_WORD`.
      script: int64 [V], the script of each token, as an index of `scripts`.
    """

    tokens: tuple[str, ...]
    unknown: int
    begins: np.ndarray
    is_special: np.ndarray
    continues: np.ndarray
    scripts: tuple[str, ...]
    script: np.ndarray

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "TokenTable":
        """Returns the table of a vocabulary."""
        tokens, ids = vocabulary.pieces, vocabulary.special
        is_special = np.array([t in SPECIAL_TOKENS and t != UNKNOWN for t in tokens])
        names = [_script_of(token) for token in tokens]
        scripts = tuple(dict.fromkeys((NO_WORD, UNKNOWN_WORD, *sorted(set(names)))))
        return cls(
            tokens,
            ids.padding if ids.unknown == NO_ID else ids.unknown,
            np.array(
                [not (_IN_ARTEFACTS.isdisjoint(t) or t.startswith("[") and t[1:]) for t in tokens]
            ),
            is_special,
            np.array([len(token) > 2 and token.startswith("##") for token in tokens]),
            scripts,
            np.array([scripts.index(name) for name in names]),
        )


def _script_of(token: str) -> str:
    """Returns the script of a token's first letter."""
    if token == UNKNOWN:
        return UNKNOWN_WORD
    letter = next((c for c in token if c.isalpha()), "")
    if not letter or token in SPECIAL_TOKENS or token.startswith("[unused"):
        return NO_WORD
    name = unicodedata.name(letter, NO_WORD).split()[0]
    return _HAN if name in _KANA else name


@dataclasses.dataclass(frozen=True, eq=False)
class ArtefactCounts:
    """Counts of artefacts; `+` adds those of other records.

    Attributes:
      records: number of records.
      having: kind -> number of records with that artefact, see `ARTEFACTS`.
      examples: kind -> path of the first file with that artefact, and text around it there.
      words: script -> number of tokens that are words, or pieces of words, of that script.
      main_scripts: script -> number of records that have more words of it than of any other.
      broken: number of records most of whose tokens continue a word.
    """

    records: int
    having: Mapping[str, int]
    examples: Mapping[str, tuple[str, str]]
    words: Mapping[str, int]
    main_scripts: Mapping[str, int]
    broken: int

    def __add__(self, other: "ArtefactCounts") -> "ArtefactCounts":
        """Returns the counts of both sets of records."""
        examples = {**other.examples, **self.examples}
        for kind in self.examples.keys() & other.examples.keys():
            examples[kind] = min(self.examples[kind], other.examples[kind], key=lambda e: e[0])
        return ArtefactCounts(
            self.records + other.records,
            Counter(self.having) + Counter(other.having),
            examples,
            Counter(self.words) + Counter(other.words),
            Counter(self.main_scripts) + Counter(other.main_scripts),
            self.broken + other.broken,
        )


def count_artefacts(restored_NL: np.ndarray, table: TokenTable, path: str = "") -> ArtefactCounts:
    """Counts artefacts in records.

    Args:
      restored_NL: ids before masking, see `statistics.restore_ids`.
      table: table of the vocabulary.
      path: path of the records' file.
    """
    is_known_NL = (restored_NL >= 0) & (restored_NL < len(table.tokens))
    ids_NL = np.where(is_known_NL, restored_NL, table.unknown)
    script_NL = table.script[ids_NL]
    scripts = len(table.scripts)
    offsets = np.arange(len(ids_NL))[:, None] * scripts
    per_record = np.bincount((script_NL + offsets).ravel(), minlength=len(ids_NL) * scripts)
    per_record = per_record.reshape(len(ids_NL), scripts)[:, 1:]  # Without `NO_WORD`.
    has_main_N = per_record.sum(axis=1) >= _FEWEST_WORDS
    main = np.bincount(per_record[has_main_N].argmax(axis=1), minlength=scripts - 1)
    named = table.scripts[1:]
    tokens_N = np.count_nonzero(~table.is_special[ids_NL], axis=1)
    broken_N = np.count_nonzero(table.continues[ids_NL], axis=1) > BROKEN_SHARE * tokens_N
    found = _find_artefacts(ids_NL, table)
    return ArtefactCounts(
        len(ids_NL),
        Counter({kind: len(examples) for kind, examples in found.items()}),
        {kind: (path, examples[0]) for kind, examples in found.items()},
        +Counter(dict(zip(named, per_record.sum(axis=0).tolist(), strict=True))),
        +Counter(dict(zip(named, main.tolist(), strict=True))),
        int(np.count_nonzero(broken_N)),
    )


def _find_artefacts(ids_NL: np.ndarray, table: TokenTable) -> dict[str, list[str]]:
    """Returns kind -> an artefact and the text around it, for each record that has one."""
    found: dict[str, list[str]] = {}
    for row in np.flatnonzero(table.begins[ids_NL].any(axis=1)):
        pieces = ("\n" if table.is_special[i] else table.tokens[i] for i in ids_NL[row].tolist())
        text = " ".join(pieces).replace(" ##", "")
        for kind, match in artefacts_in(text).items():
            first = max(0, match.start() - _EXAMPLE_CHARACTERS)
            around = text[first : match.end() + _EXAMPLE_CHARACTERS]
            found.setdefault(kind, []).append(" ".join(around.split()))
    return found


def artefacts_in(text: str) -> dict[str, re.Match[str]]:
    """Returns kind -> the first artefact of a text whose tokens have spaces between them."""
    entities = (m for m in _ENTITY.finditer(text) if m[1][0] == "#" or f"{m[1]};" in html5)
    found = {
        "entities": next(entities, None),
        "replacements": _REPLACEMENT.search(text),
        "markup": _MARKUP.search(text),
    }
    return {kind: match for kind, match in found.items() if match}


def text_figures(counts: ArtefactCounts | None, info: RecordsInfo | None) -> dict[str, Any]:
    """Returns name -> shares of the records; None for what is unknown."""
    shares: dict[str, Any] = {f"{kind}_share": None for kind in ARTEFACTS}
    shares |= dict.fromkeys(("broken_words_share", "scripts"))
    shares["random_next_other_source_share"] = _other_source_share(info)
    if counts is None or not counts.records:
        return shares
    words = sum(counts.words.values())
    by_size = sorted(counts.words.items(), key=lambda item: (-item[1], item[0]))
    return shares | {
        **{f"{kind}_share": _share(counts.having.get(kind, 0), counts) for kind in ARTEFACTS},
        "broken_words_share": _share(counts.broken, counts),
        "scripts": {name: round(n / words, 6) for name, n in by_size[:_SCRIPTS_SHOWN]},
    }


def _share(number: int, counts: ArtefactCounts) -> float:
    return round(number / counts.records, 6)


def _other_source_share(info: RecordsInfo | None) -> float | None:
    """Returns the share of random next pairs whose B is of another source than A."""
    counts = info.counts if info else {}
    if "random_next_other_source" not in counts or not counts.get("random_next"):
        return None
    return round(counts["random_next_other_source"] / counts["random_next"], 6)


def text_warnings(
    counts: ArtefactCounts | None, info: RecordsInfo | None, made_with: MadeWith, length: int
) -> list[str]:
    """Returns the warnings about the text of a folder's records of `length` tokens."""
    found = [_source_warning(info, made_with), _undecodable_warning(info)]
    if counts is not None and counts.records:
        found += [
            *(_artefact_warning(counts, kind, length) for kind in ARTEFACTS),
            _script_warning(counts),
            _broken_warning(counts),
        ]
    return [text for text in found if text]


def _in_records(share: float, length: int) -> float:
    """Returns a share of records of the usual length as a share of longer records."""
    return 1 - (1 - share) ** max(1.0, length / _USUAL_LENGTH)


def _artefact_warning(counts: ArtefactCounts, kind: str, length: int) -> str:
    share = counts.having.get(kind, 0) / counts.records
    if share <= _in_records(MOST_ARTEFACTS, length):
        return ""
    return (
        f"{share:.1%} of the records contain {ARTEFACTS[kind]} (“{counts.examples[kind][1]}”), "
        "which the model would learn as text; check --format, or clean the input"
    )


def _script_warning(counts: ArtefactCounts) -> str:
    with_words = sum(counts.main_scripts.values())
    if not with_words:
        return ""
    main = max(counts.main_scripts, key=lambda name: (counts.main_scripts[name], name))
    others = {name: n for name, n in counts.main_scripts.items() if name != main}
    share = sum(others.values()) / with_words
    if share <= MOST_FOREIGN:
        return ""
    largest = max(others, key=lambda name: (others[name], name))
    of_them = others[largest] / with_words
    what = "words that are [UNK]" if largest == UNKNOWN_WORD else f"{largest} words"
    return (
        f"{share:.1%} of the records are not mainly of {main} words as the others are "
        f"({of_them:.1%} are of {what}); if the corpus should have one language, leave such "
        "documents out, and otherwise check that the vocabulary was learned from all of them"
    )


def _broken_warning(counts: ArtefactCounts) -> str:
    share = counts.broken / counts.records
    if share <= MOST_FOREIGN:
        return ""
    return (
        f"in {share:.1%} of the records more than {BROKEN_SHARE:.0%} of the tokens continue a "
        "word, as text of another language than the vocabulary's does, or with a small vocabulary "
        "that of a language with long words; leave documents of another language out, or learn a "
        "larger vocabulary from this text with `beambert vocab --vocab_size=`"
    )


def _source_warning(info: RecordsInfo | None, made_with: MadeWith) -> str:
    share = _other_source_share(info) or 0.0
    is_remedied = info is not None and info.parameters.get("random_next") == "source"
    if share <= MOST_FROM_ANOTHER_SOURCE or is_remedied:
        return ""
    return (
        f"in {share:.1%} of the {label_words(made_with.pairs)[1]} pairs B is of another --input "
        "than A, so a model that only distinguishes the sources is right in "
        f"{0.5 + share / 2:.1%} of the cases; if their texts differ in kind, make the records with "
        "--random_next=source"
    )


def _undecodable_warning(info: RecordsInfo | None) -> str:
    documents: Mapping[str, Any] = info.counts.get("documents", {}) if info else {}
    number, read = documents.get("with_replacement_characters", 0), documents.get("read", 0)
    if number <= MOST_ARTEFACTS * read:
        return ""
    return (
        f"{number:,} of {read:,} documents had U+FFFD in place of characters that could not be "
        "decoded, and these were dropped from their words; fix the encoding of the input"
    )
