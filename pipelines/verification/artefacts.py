"""Traces of faulty input in the text of records: markup, gaps, broken sentences, other languages.

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

from beambert.pipelines.corpus.cleaning import SENTENCE_ENDS
from beambert.pipelines.records.contract import COPY, RecordsInfo, label_words
from beambert.pipelines.tokenizers.vocabulary import NO_ID, SPECIAL_TOKENS, UNKNOWN, Vocabulary

# Share of the tokens that continue a word in a record of broken words.
BROKEN_SHARE = 0.4
MOST_ARTEFACTS, _CLEAN = 0.005, "check --format, or clean the input"
# Kind of artefact in the text -> share of the records above which there is a warning, what they
# contain, and what to do. WikiExtractor leaves wiki markup in 0.15 % of the records of English
# Wikipedia and gaps in 0.5 %; entities that were not decoded are in 3.7 %. The shares are those of
# records of `_USUAL_LENGTH` tokens.
_USUAL_LENGTH = 128
ARTEFACTS = {
    "entities": (MOST_ARTEFACTS, "an HTML entity", _CLEAN),
    "replacements": (
        MOST_ARTEFACTS,
        "characters in place of bytes that could not be decoded",
        _CLEAN,
    ),
    "markup": (MOST_ARTEFACTS, "HTML tags or wiki markup", _CLEAN),
    "signs": (
        MOST_ARTEFACTS,
        "lines of signs, as underlined headings, tables and code have",
        "leave such files out, or check --format and --text_column",
    ),
    "holes": (
        0.01,
        "a gap, as where a template, code or a number was removed",
        "of a wiki take a dump of rendered text, or the XML dump with --format=mediawiki, which "
        "drops such sentences",
    ),
}
# Kind of record whose words are broken up.
BROKEN = "broken_words"
# Counts of segments that are whole sentences: all, those without a mark at their end, those that
# begin with a cased letter, and those that begin with a small one.
SEGMENTS, OPEN_ENDS = "segments", "open_ends"
CASED_STARTS, SMALL_STARTS = "cased_starts", "small_starts"
# The patterns are for text with a space between all tokens, and a line feed for special ones.
_ENTITY = re.compile(r"& ?(# ?(?:\d+|x[0-9a-f]+)|\w+) ?;", re.IGNORECASE)
# What does not occur in prose: templates and tables of wikis, end tags, wiki links (synopses of
# commands have [[--option]] and [[user@]host], which are not links), and elements of HTML and
# MediaWiki. Of those with one letter only the commonest are here, because "<" and ">" also compare
# variables.
_MARKUP = re.compile(
    r"\{ ?[{|]|[}|] ?\}|< ?/|\[ ?\[ ?\w[^\[\]<>=@\n]*\] ?\]|\| ?thumb\b|< ?ref\b"
    r"|< ?(?:p|br|hr|div|span|ref|img|table|tbody|tr|td|th|ul|ol|li|dl|dt|dd|sub|sup|small|big|font"
    r"|center|em|strong|pre|code|math|nowiki|gallery|blockquote|script|style|h[1-6]|unk|!)"
    r"(?![a-z0-9])[^<>\n]{0,100}>",
    re.IGNORECASE,
)
# U+FFFD, or two of its three characters in UTF-8 that was read as Latin-1 (the first is a letter).
_REPLACEMENT = re.compile("\ufffd|¿ ?½")
_SIGNS = re.compile(r"([=~^#+])(?: ?\1){3,}")
# Characters that one of these has.
_IN_ARTEFACTS = frozenset("&<{}[|\ufffd¿=~^#+")
# Words, and those that follow them where something is missing between. Empty brackets are none in a
# record with signs of code, "f()".
_HOLES = (
    ("(", ")"),
    ("( [", ", ;"),
    (",", ", ;"),
    ("the", "the , . ; : )"),
    ("of", "of"),
    ("from", "from to"),
    ("is are was were between", "and"),
)
# Bits of the properties of a token. Of each of `_HOLES`, a token may be the first or the second.
_BEGINS, _SPECIAL, _CONTINUES, _OF_CODE = 1, 2, 4, 8
_FIRST, _SECOND = 4, 4 + len(_HOLES)
_EMPTY_BRACKETS, _IN_HOLE = 1, (1 << len(_HOLES)) - 1
_CODE_SIGNS = frozenset("{}[]=_<>;\\#")
# What ends a sentence: a mark, what closes a quotation behind it, or Thai and Lao letters, as these
# languages have no mark.
_ENDS = re.compile(rf"[{re.escape(SENTENCE_ENDS)}\"'”’»)\]」』）】\u0e00-\u0eff]$")
# Least number of words with a capital for each with a small letter in a cased vocabulary; Google's
# uncased one has none, and the cased one 0.6.
_LEAST_CAPITALS = 0.01
# Number of characters shown as an example before and after an artefact.
_EXAMPLE_CHARACTERS = 30
# And of tokens before and after a place.
_EXAMPLE_TOKENS = 8

# At most 0.15 % of the records of English Wikipedia have words that an English vocabulary of 30,522
# pieces breaks up; of English speech, 2.5 % with 4,000 pieces of its own. Of German, French or
# Finnish records nearly all do.
MOST_BROKEN = 0.05
# Of the segments of English Wikipedia and novels 0.2 to 0.5 % begin with a small letter, and 2 to
# 3 % have no mark at their end; of novels with poems 10 %.
MOST_SMALL_STARTS, MOST_OPEN_ENDS = 0.05, 0.5
# Number of segments from which on their shares mean something.
_LEAST_SEGMENTS = 20
# A model that only distinguishes the sources recognizes these random next pairs. If they are 10 %,
# it is right in 55 % of the cases, compared with 50 % by chance.
MOST_FROM_ANOTHER_SOURCE = 0.1


@dataclasses.dataclass(frozen=True, eq=False)
class TokenTable:
    """The properties of a vocabulary that the counts need.

    Attributes:
      tokens: tokens by id, as word pieces.
      unknown: id of [UNK], or of [PAD] if the vocabulary spells all words.
      properties: uint32 [V]: whether a token has a character of artefacts, is special (except for
        [UNK]), continues a word, is a sign of code, and is the first or second one of `_HOLES`.
      case: int8 [V], 1 for words that begin with a capital letter, -1 with a small one, else 0; all
        0 in a vocabulary of lower-cased text.
      is_open: bool [V], true for tokens that end no sentence.
    """

    tokens: tuple[str, ...]
    unknown: int
    properties: np.ndarray
    case: np.ndarray
    is_open: np.ndarray

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "TokenTable":
        """Returns the table of a vocabulary."""
        tokens, ids = vocabulary.pieces, vocabulary.special
        case = np.array([token[:1].isupper() - token[:1].islower() for token in tokens], np.int8)
        return cls(
            tokens,
            ids.padding if ids.unknown == NO_ID else ids.unknown,
            np.array([_properties(token) for token in tokens], np.uint32),
            case if (case > 0).sum() >= _LEAST_CAPITALS * (case < 0).sum() else np.zeros_like(case),
            np.array([not _ENDS.search(token) for token in tokens]),
        )


def _properties(token: str) -> int:
    found = _BEGINS * (not (_IN_ARTEFACTS.isdisjoint(token) or token.startswith("[") and token[1:]))
    found |= _SPECIAL * (token in SPECIAL_TOKENS and token != UNKNOWN)
    found |= _CONTINUES * (len(token) > 2 and token.startswith("##"))
    found |= _OF_CODE * (token in _CODE_SIGNS)
    for number, (first, second) in enumerate(_HOLES):
        found |= (token.lower() in first.split()) << _FIRST + number
        found |= (token.lower() in second.split()) << _SECOND + number
    return found


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
    """Returns kind -> the records with it, for each kind of `ARTEFACTS` and `BROKEN`; and segments.

    Args:
      restored_NL: ids before masking, see `statistics.restore_ids`.
      table: table of the vocabulary.
      path: path of the records' file.
    """
    ids_NL, length = restored_NL, restored_NL.shape[1]
    is_known_NL = ids_NL.view(np.uint64) < len(table.tokens)  # An id below 0 is a large number.
    if not is_known_NL.all():
        ids_NL = np.where(is_known_NL, ids_NL, table.unknown)
    properties_NL = table.properties.take(ids_NL)
    is_special_NL = (properties_NL & _SPECIAL) != 0
    properties = properties_NL.ravel()
    found: dict[str, list[str]] = {}
    for row in np.unique(np.flatnonzero(properties & _BEGINS) // length):
        text = _text(ids_NL[row], is_special_NL[row], table, "\n")
        for kind, match in artefacts_in(text).items():
            first = max(0, match.start() - _EXAMPLE_CHARACTERS)
            around = text[first : match.end() + _EXAMPLE_CHARACTERS]
            found.setdefault(kind, []).append(" ".join(around.split()))
    counts = {kind: Artefact(len(texts), path, texts[0]) for kind, texts in found.items()}

    def add(kind: str, positions: np.ndarray) -> None:
        """Adds a kind with the text around the first of its positions in all records."""
        if len(positions):
            row, place = divmod(int(positions[0]), length)
            shown = row, slice(max(0, place - _EXAMPLE_TOKENS), place + _EXAMPLE_TOKENS)
            text = _text(ids_NL[shown], is_special_NL[shown], table, "|").strip("| ")
            counts[kind] = Artefact(len(positions), path, text)

    tokens_N = np.count_nonzero(~is_special_NL, axis=1)
    pieces_N = np.count_nonzero(properties_NL & _CONTINUES, axis=1)
    add(BROKEN, np.flatnonzero(pieces_N > BROKEN_SHARE * tokens_N) * length)
    # No record begins with the second part of a hole.
    kinds = properties[:-1] >> _FIRST & properties[1:] >> _SECOND & _IN_HOLE
    holes = np.flatnonzero(kinds)
    is_code_N = ((properties_NL & _OF_CODE) != 0).any(axis=1)
    holes = holes[(kinds[holes] != _EMPTY_BRACKETS) | ~is_code_N[holes // length]]
    holes = holes[properties[np.minimum(holes + 2, properties.size - 1)] & _CONTINUES == 0]
    add("holes", holes[np.unique(holes // length, return_index=True)[1]])
    begins, ends = _whole_segments(is_special_NL, tokens_N)
    case = table.case[ids_NL.take(begins)]
    add(SEGMENTS, begins)
    add(CASED_STARTS, begins[case != 0])
    add(SMALL_STARTS, begins[case < 0])
    add(OPEN_ENDS, ends[table.is_open[ids_NL.take(ends)]])
    return counts


def _text(ids: np.ndarray, is_special: np.ndarray, table: TokenTable, special: str) -> str:
    """Returns tokens with spaces between words, and `special` in place of special tokens."""
    pairs = zip(ids.tolist(), is_special.tolist(), strict=True)
    pieces = (special if is_hidden else table.tokens[i] for i, is_hidden in pairs)
    return " ".join(pieces).replace(" ##", "")


def _whole_segments(
    is_special_NL: np.ndarray, tokens_N: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first and last positions of the segments that are whole sentences.

    A pair that was too long for its record lost tokens at both ends of the longer segment, until
    both were equally long. So the shorter one of a full record is whole if they differ.

    Args:
      is_special_NL: whether a token is special.
      tokens_N: number of the others in each record.
    """
    is_text_NL, length = ~is_special_NL, is_special_NL.shape[1]
    is_text_NL[:, [0, -1]] = False  # Faulty records have text there.
    is_text = is_text_NL.ravel()
    changes = np.flatnonzero(is_text[1:] != is_text[:-1])
    begins, ends = changes[::2] + 1, changes[1::2]
    rows, lengths = begins // length, ends - begins + 1
    of_row = np.bincount(rows, minlength=len(tokens_N))[rows]
    is_whole = (of_row != 2) | (tokens_N[rows] < length - 3) | (2 * lengths + 1 < tokens_N[rows])
    return begins[is_whole], ends[is_whole]


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
        "signs": _SIGNS.search(text),
    }
    return {kind: match for kind, match in found.items() if match}


def text_figures(
    found: Mapping[str, Artefact] | None, records: int, made_with: RecordsInfo
) -> dict[str, Any]:
    """Returns name -> shares of the records; None for what is unknown.

    Args:
      found: the artefacts; None without a vocabulary.
      records: number of records.
      made_with: info.json of the records, as far as it is known.
    """
    number = {kind: each.records for kind, each in (found or {}).items()}
    of_kind = {
        **dict.fromkeys((*ARTEFACTS, BROKEN), records),
        SMALL_STARTS: number.get(CASED_STARTS),
        OPEN_ENDS: number.get(SEGMENTS),
    }
    shares: dict[str, Any] = dict.fromkeys(f"{kind}_share" for kind in of_kind)
    if found is not None:
        for kind, whole in of_kind.items():
            if whole:
                shares[f"{kind}_share"] = round(number.get(kind, 0) / whole, 6)
    counts = made_with.counts
    from_another = None
    if "random_next_other_source" in counts and counts.get("random_next"):
        from_another = round(counts["random_next_other_source"] / counts["random_next"], 6)
    return shares | {"random_next_other_source_share": from_another}


def text_warnings(
    found: Mapping[str, Artefact] | None,
    records: int,
    made_with: RecordsInfo,
    length: int,
) -> list[str]:
    """Returns the warnings about the text of a folder's records of `length` tokens."""
    warnings, shares = [], text_figures(found, records, made_with)
    from_another = shares["random_next_other_source_share"] or 0.0
    is_remedied = made_with.parameters.get("random_next") == "source"
    if from_another > MOST_FROM_ANOTHER_SOURCE and not is_remedied:
        warnings.append(
            f"in {from_another:.1%} of the {label_words(made_with.pairs)[1]} pairs B is of another "
            "--input than A, so a model that only distinguishes the sources is right in "
            f"{0.5 + from_another / 2:.1%} of the cases; if their texts differ in kind, make the "
            "records with --random_next=source"
        )
    documents: Mapping[str, Any] = made_with.counts.get("documents", {})
    number, read = documents.get("with_replacement_characters", 0), documents.get("read", 0)
    if number > MOST_ARTEFACTS * read:
        warnings.append(
            f"{number:,} of {read:,} documents had U+FFFD in place of characters that could not be "
            "decoded, and these were dropped from their words; fix the encoding of the input"
        )
    # Longer records have more artefacts.
    lengths = max(1.0, length / _USUAL_LENGTH)
    warnings += [
        f"{found[kind].records:,} records ({share:.1%}) contain {what} (“{found[kind].example}”), "
        f"which the model would learn as text; {remedy}"
        for kind, (most, what, remedy) in ARTEFACTS.items()
        if (share := shares[f"{kind}_share"] or 0.0) > 1 - (1 - most) ** lengths
        and not (kind == "holes" and made_with.pairs == COPY)  # noisy copies lack words
    ]
    warnings += _sentence_warnings(found or {}, shares, made_with)
    if (share := shares[f"{BROKEN}_share"] or 0.0) > MOST_BROKEN:
        warnings.append(
            f"in {share:.1%} of the records more than {BROKEN_SHARE:.0%} of the tokens continue a "
            "word, as text of another language than the vocabulary's does, or with a small "
            "vocabulary that of a language with long words; leave documents of another language "
            "out, or learn a larger vocabulary from this text with `beambert vocab --vocab_size=`"
        )
    return warnings


def _sentence_warnings(
    found: Mapping[str, Artefact], shares: Mapping[str, Any], made_with: RecordsInfo
) -> list[str]:
    """Returns the warnings about how segments begin and end; noisy copies begin anywhere."""
    if made_with.pairs == COPY or SEGMENTS not in found:
        return []
    warnings = []
    small, cased = shares[f"{SMALL_STARTS}_share"], found.get(CASED_STARTS, Artefact(0, "", ""))
    # Where most begin with a small letter, the text was lower-cased.
    if cased.records >= _LEAST_SEGMENTS and MOST_SMALL_STARTS < small < 0.5:
        warnings.append(
            f"{found[SMALL_STARTS].records:,} segments ({small:.1%}) begin with a small letter "
            f"(“{found[SMALL_STARTS].example}”), most others with a capital one: they are parts of "
            "sentences; if lines of the input end within sentences, give --layout=wrapped, and "
            "not --format=lines; otherwise check --language"
        )
    ends = shares[f"{OPEN_ENDS}_share"]
    if found[SEGMENTS].records >= _LEAST_SEGMENTS and ends > MOST_OPEN_ENDS:
        warnings.append(
            f"{found[OPEN_ENDS].records:,} segments ({ends:.1%}) end without a mark that ends a "
            f"sentence (“{found[OPEN_ENDS].example}”), as lists, titles and lines of verse do; "
            "check --format and --text_column, or, if the text has no such marks, give "
            "--sentences=sat"
        )
    return warnings
