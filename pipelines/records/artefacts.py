"""Traces of faulty input in the text of records: markup, entities, boilerplate, other scripts.

The counts come from finished records and their vocabulary, whoever made them. They add up over
batches, files and workers. Pure numpy.

Legend: N rows, L max_seq_length, V tokens of the vocabulary, W places where a phrase can start.
"""

import dataclasses
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from html.entities import html5

import numpy as np

from beambert.pipelines.records.repeats import HashCounts, hash_limit, hash_windows
from beambert.pipelines.tokenizers.pieces import join_pieces
from beambert.pipelines.tokenizers.vocabulary import NO_ID, SPECIAL_TOKENS, UNKNOWN, Vocabulary

# Kind of artefact -> what the records with it contain.
ARTEFACTS = {
    "entities": "an HTML entity",
    "replacements": "characters in place of bytes that could not be decoded",
    "markup": "HTML tags or wiki markup",
}
# Neighbouring tokens that no prose has: templates and tables of wikis, end tags; and the three
# characters that U+FFFD becomes in UTF-8 that was read as Latin-1 (the first one is a letter).
_PAIRS = {
    **dict.fromkeys((("{", "{"), ("}", "}")), "markup"),
    **dict.fromkeys((("{", "|"), ("|", "}"), ("<", "/"), ("/", ">")), "markup"),
    ("¿", "½"): "replacements",
}
# First and last token of an entity and of a tag -> largest number of tokens between them.
_SPANS = {("&", ";"): 5, ("<", ">"): 16, ("[", "]"): 16}
# The inside of a wiki link, after its second bracket: words and the signs of titles. The synopses
# of commands have [[--option]] and [[user@]host], too.
_LINK = re.compile(r"\[\s*\w[^\[\]<>=@]*")
_NUMERIC_ENTITY = re.compile(r"#(\d+|x[0-9a-f]+);", re.IGNORECASE)
# Elements of HTML and MediaWiki that the text of pages and dumps has. Those of one letter are left
# out except for the commonest, because "<" and ">" also compare variables.
_TAG = re.compile(
    r"(p|br|hr|div|span|ref|img|table|tbody|tr|td|th|ul|ol|li|dl|dt|dd|sub|sup|small|big|font|center"
    r"|em|strong|pre|code|math|nowiki|gallery|blockquote|script|style|h[1-6]|unk|!)(?![a-z0-9])",
    re.IGNORECASE,
)
# Number of tokens shown as an example before and after the token that an artefact begins with.
_EXAMPLE_TOKENS = 6

# A phrase is so many neighbouring tokens of A or of B, of which so many are words.
PHRASE_TOKENS = 8
_PHRASE_WORDS = 5
# Phrases are counted in about so many records of a folder. One in 1 % of them is in 82 (± 9).
_PHRASE_RECORDS = 1 << 13
# Number of the commonest phrases whose tokens are kept.
_PHRASES_KEPT = 16

# A record has a main script if it has so many words, and is of broken words if this share of its
# tokens continue a word.
_FEWEST_WORDS = 8
BROKEN_SHARE = 0.4
# The names of characters begin with the name of their script. Chinese and Japanese share theirs.
_HAN, _KANA = "CJK", ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC", "BOPOMOFO")
NO_WORD, UNKNOWN_WORD = "(none)", "[UNK]"


@dataclasses.dataclass(frozen=True, eq=False)
class TokenTable:
    """What the counts need to know of a vocabulary.

    Attributes:
      tokens: tokens by id, as word pieces.
      unknown: id of [UNK], or of [PAD] where the vocabulary spells all words.
      begins: bool [V], true for tokens that an artefact can begin with.
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
        """Looks at every token of a vocabulary."""
        tokens, ids = vocabulary.pieces, vocabulary.special
        starts = {first for first, _ in (*_PAIRS, *_SPANS)}
        is_special = np.array([t in SPECIAL_TOKENS and t != UNKNOWN for t in tokens])
        names = [_script_of(token) for token in tokens]
        scripts = tuple(dict.fromkeys((NO_WORD, UNKNOWN_WORD, *sorted(set(names)))))
        return cls(
            tokens,
            ids.padding if ids.unknown == NO_ID else ids.unknown,
            np.array([token in starts or "\ufffd" in token for token in tokens]),
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
      examples: kind -> text around the first one.
      words: script -> number of tokens that are words, or pieces of words, of that script.
      main_scripts: script -> number of records that have more words of it than of any other.
      broken: number of records most of whose tokens continue a word.
      phrase_records: number of records whose phrases were counted.
      phrases: number of those records that each phrase is in.
      phrase_texts: hash -> tokens of the commonest phrases.
    """

    records: int
    having: Mapping[str, int]
    examples: Mapping[str, str]
    words: Mapping[str, int]
    main_scripts: Mapping[str, int]
    broken: int
    phrase_records: int
    phrases: HashCounts
    phrase_texts: Mapping[int, str]

    def __add__(self, other: "ArtefactCounts") -> "ArtefactCounts":
        """Returns the counts of both sets of records."""
        phrases = HashCounts.sum((self.phrases, other.phrases))
        known = {**other.phrase_texts, **self.phrase_texts}
        return ArtefactCounts(
            self.records + other.records,
            Counter(self.having) + Counter(other.having),
            {**other.examples, **self.examples},
            Counter(self.words) + Counter(other.words),
            Counter(self.main_scripts) + Counter(other.main_scripts),
            self.broken + other.broken,
            self.phrase_records + other.phrase_records,
            phrases,
            {key: known[key] for key in _commonest(phrases) if key in known},
        )

    def commonest_phrase(self) -> tuple[str, int]:
        """Returns the text of the commonest phrase, and the number of records with it."""
        key = next((key for key in _commonest(self.phrases) if key in self.phrase_texts), None)
        if key is None:
            return "", 0
        place = np.searchsorted(self.phrases.hashes, np.uint64(key))
        return self.phrase_texts[key], int(self.phrases.counts[place])


def _commonest(phrases: HashCounts) -> list[int]:
    """Returns the hashes of the commonest phrases, the commonest first."""
    order = np.lexsort((phrases.hashes, -phrases.counts))[:_PHRASES_KEPT]
    return phrases.hashes[order].tolist()


def phrase_limit(expected_records: int) -> int:
    """Returns the largest hash of the records whose phrases are counted, see `repeats`."""
    return hash_limit(expected_records, _PHRASE_RECORDS)


def count_artefacts(
    restored_NL: np.ndarray, hashes_N: np.ndarray, table: TokenTable, limit: int
) -> ArtefactCounts:
    """Counts artefacts in records.

    Args:
      restored_NL: ids before masking, see `statistics.restore_ids`.
      hashes_N: hashes of the records, see `repeats.hash_records`.
      table: table of the vocabulary.
      limit: largest hash of the records whose phrases are counted, see `phrase_limit`.
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
    sampled_NL = ids_NL[hashes_N <= np.uint64(limit)]
    phrases, texts = _count_phrases(sampled_NL, table)
    return ArtefactCounts(
        len(ids_NL),
        Counter({kind: len({row for row, _ in places}) for kind, places in found.items()}),
        {kind: _example(ids_NL, *places[0], table) for kind, places in found.items()},
        +Counter(dict(zip(named, per_record.sum(axis=0).tolist(), strict=True))),
        +Counter(dict(zip(named, main.tolist(), strict=True))),
        int(np.count_nonzero(broken_N)),
        len(sampled_NL),
        phrases,
        texts,
    )


def _find_artefacts(ids_NL: np.ndarray, table: TokenTable) -> dict[str, list[tuple[int, int]]]:
    """Returns kind -> rows and positions of artefacts, in order."""
    found: dict[str, list[tuple[int, int]]] = {}
    rows, positions = np.nonzero(table.begins[ids_NL])
    # Every record ends with [SEP], so that there is a following token in any sound record.
    following = ids_NL[rows, np.minimum(positions + 1, ids_NL.shape[1] - 1)]
    is_near = np.isin(ids_NL[rows, positions], _ids(table, "&<")) | np.isin(
        following, _ids(table, {second for _, second in _PAIRS})
    )
    is_near |= np.array(["\ufffd" in table.tokens[i] for i in ids_NL[rows, positions]], bool)
    for row, position in zip(rows[is_near].tolist(), positions[is_near].tolist(), strict=True):
        most = 2 + max(_SPANS.values())
        tokens = [table.tokens[i] for i in ids_NL[row, position : position + most]]
        if kind := artefact_at_start(tokens):
            found.setdefault(kind, []).append((row, position))
    return found


def _ids(table: TokenTable, tokens: Sequence[str]) -> list[int]:
    return [index for index, token in enumerate(table.tokens) if token in tokens]


def artefact_at_start(tokens: Sequence[str]) -> str:
    """Returns the kind of the artefact that tokens begin with, "" if there is none."""
    if "\ufffd" in tokens[0]:
        return "replacements"
    if kind := _PAIRS.get(tuple(tokens[:2])):
        return kind
    if tokens[:2] == ["[", "["]:
        return "markup" if _is_link(tokens) else ""
    for (first, last), most in _SPANS.items():
        if tokens[0] == first and last in tokens[1 : 2 + most]:
            inside = " ".join(tokens[1 : 1 + tokens[1:].index(last)]).replace(" ##", "")
            name = inside.replace(" ", "") + last
            if first == "<" and _TAG.match(inside):
                return "markup"
            if first == "&" and (name in html5 or _NUMERIC_ENTITY.fullmatch(name)):
                return "entities"
    return ""


def _is_link(tokens: Sequence[str]) -> bool:
    """Returns whether tokens begin with a whole wiki link, such as [[city|its city]]."""
    end = tokens.index("]") if "]" in tokens else len(tokens)
    return list(tokens[end : end + 2]) == ["]", "]"] and bool(
        _LINK.fullmatch(" ".join(tokens[1:end]).replace(" ##", ""))
    )


def _example(ids_NL: np.ndarray, row: int, position: int, table: TokenTable) -> str:
    around = ids_NL[row, max(0, position - _EXAMPLE_TOKENS) : position + _EXAMPLE_TOKENS]
    return join_pieces(table.tokens[i] for i in around if not table.is_special[i])


def _count_phrases(ids_NL: np.ndarray, table: TokenTable) -> tuple[HashCounts, dict[int, str]]:
    """Returns the number of records that each phrase is in, and texts of the commonest."""
    nothing = HashCounts.sum(())
    if ids_NL.shape[1] < PHRASE_TOKENS or not len(ids_NL):
        return nothing, {}
    hashes_NW = hash_windows(ids_NL, PHRASE_TOKENS)
    windows = np.lib.stride_tricks.sliding_window_view
    words_NW = windows(table.script[ids_NL] > 0, PHRASE_TOKENS, axis=1).sum(axis=2)
    special_NW = windows(table.is_special[ids_NL], PHRASE_TOKENS, axis=1).any(axis=2)
    is_phrase_NW = (words_NW >= _PHRASE_WORDS) & ~special_NW
    found = [np.unique(h[is_phrase]) for h, is_phrase in zip(hashes_NW, is_phrase_NW, strict=True)]
    phrases = HashCounts.of(np.concatenate(found))
    texts = {}
    for key in _commonest(phrases):
        row, start = divmod(int(np.argmax(hashes_NW == np.uint64(key))), hashes_NW.shape[1])
        texts[key] = join_pieces(table.tokens[i] for i in ids_NL[row, start:][:PHRASE_TOKENS])
    return phrases, texts
