"""Splits documents into sentences, and sentences of scripts without spaces into words.

The library sentencex splits sentences. The rules for some languages here correct it where it
differs from sentences that people set apart (treebanks of Universal Dependencies), or from the
grammar of the script.

Of the libraries that find words, ICU (the package icu4py) knows Chinese, Japanese, Thai, Lao, Khmer
and Burmese, and chooses its dictionary by the script. Sudachi (SudachiPy and a dictionary) knows
Japanese better, with its inflected forms. docs/data.md compares both with treebanks.
"""

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.corpus.cleaning import JOINS_WORDS, SENTENCE_ENDS
from beambert.pipelines.corpus.documents import DEFAULT_LANGUAGE, Document
from beambert.pipelines.text.cleaning import UNSPACED, UNSPACED_CHARACTER
from beambert.pipelines.text.sentence_model import SentenceModel
from beambert.process import needs

# Number of characters to split at a time. The splitter needs many times the memory of its text.
WINDOW = 1 << 20
# Number of characters above which a paragraph is cut. The splitter looks for the end of a quotation
# in the whole paragraph. This takes quadratic time, and it fails where a quotation mark is missing.
LONGEST_PARAGRAPH = 1 << 16
_CAPITAL_LETTER = "[A-ZÀ-ÖØ-ÞА-ЯΑ-Ω]"
# The splitter never ends a sentence between two quotation marks or brackets: a speech, or all that
# stands between the "(C)" of two copyrights, is one sentence to it. So spaces stand for them, but
# not for brackets that hold no sentence: "(proj. J. Smith)", "(...)", "( 5 km )".
_OPENING = frozenset("\"'`“”„«»‹‘(「『《〈（【")
_MAY_OPEN = frozenset('"`“„«‹»')
_ASCII_QUOTATION = '"`()'
_QUOTATION = '"`“”„«»‹›‘()「」『』《》〈〉（）【】'
_KEPT_BRACKETS = re.compile(
    rf"\(((?![\W\d_]|{_CAPITAL_LETTER})[^()]{{4,199}}[^().!?…]|[.…]+| [^()]{{1,199}}[^().!?… ] "
    r"|(?<=\w\()[a-z])\)"
)
# The bracket of a number of an item, "(1)", for which a sign stands that begins sentences.
_ITEM_BRACKET = re.compile(r"\((?=\d{1,4}\))")
# The number of a note behind a stop, "so.1 She", which takes the place of the stop.
_NOTE_NUMBER = re.compile(r"\.(?=\d)(?<=[a-zß-ÿ]{3}\.)(\d{1,2})(?=\s[\"“]?[A-Z])")
# "P<.01" and "a << b" open no quotation, as the splitter takes them to.
_LESS = re.compile(r"<(?![A-Za-z/!])")
# Apostrophes that open or close a quotation.
_APOSTROPHES = re.compile(r"'(?:'+|(?<=[ \n]')|(?= ))")
# The first of two marks behind which the splitter takes "I" for a number.
_BEFORE_I = {"!": re.compile(r"!(?=! I )"), "?": re.compile(r"\?(?=\? I )")}

# Rules for languages.
# Marks that end a sentence of Chinese and Japanese, and what may close a quotation behind them.
_END = "。！？｡"
_CLOSING = "”’」』）》"
# A letter that ends no sentence, and a mark that always ends one.
_LETTER, _STOP = "字", "。"
# The splitter ends no sentence before a digit: "…结束。2009年…" is one to it. The stop behind a
# letter of the alphabet is that of an initial.
_HAN = (
    (re.compile(rf"(?<=[{_END}])[0-9０-９]|(?<=[{_END}][{_CLOSING}])[0-9０-９]"), _LETTER),
    (re.compile(r"(?<=[A-ZＡ-Ｚ])[.．](?=\w)"), _LETTER),
)
# Scripts of India: "Dr", "Prof", "Mr", "Mrs", "the late" and the like, abbreviations of several
# stops, and any stop where a danda ends the sentence.
_INDIAN_TITLES = (
    "डॉ प्रो पं स्व रु श्री श्रीमती ड ডা ড মো প্রো ਡਾ ਪ੍ਰੋ ਸ਼੍ਰੀ ડૉ "
    "શ્રી પ્રો டாக்டர் திரு திருமதி பேரா డా డాక్టర్ శ్రీ ప్రొ ಡಾ ಶ್ರೀ ಪ್ರೊ ഡോ ശ്രീ പ്രൊഫ ଡ"
)
_INDIAN_LANGUAGES = ("hi", "mr", "ne", "sa", "bn", "as", "or", "pa", "gu", "ta", "te", "kn", "ml")
_INDIC = "[\u0900-\u0dff]"
_INDIAN = (
    (
        re.compile(
            rf"\.(?:(?<={_INDIC}\.)(?=[^।\n]{{0,200}}।)"
            + "".join(rf"|(?<=\.{_INDIC}{{{size}}}\.)" for size in (1, 2, 3))
            + "".join(rf"|(?<=(?<!{_INDIC}){word}\.)" for word in _INDIAN_TITLES.split(" "))
            + ")"
        ),
        ",",
    ),
)
# Language -> characters that the splitter mistakes, as regular expressions, and a character that it
# takes rightly. Text and stand-in have the same length.
_STAND_INS: Mapping[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    "zh": _HAN,
    # A quotation is a part of its sentence where と or って follows.
    "ja": (
        *_HAN,
        (re.compile(rf"[{_END}](?=[」』](?:と|って|、))"), _LETTER),
    ),
    # ASCII quotation marks stand for gershayim inside of words: או"ם is the United Nations.
    "he": ((re.compile(r"(?<=[א-ת])\"(?=[א-ת])"), "״"), (re.compile(r"(?<=[א-ת])'(?=[א-ת])"), "׳")),
    # A single letter is an abbreviation: د. is "Dr", ص. is "page".
    **dict.fromkeys(
        ("ar", "fa", "ps", "ug", "ur"),
        ((re.compile(r"(?<=\b[\u0621-\u06d3])\.(?=\s?\w)"), "،"),),
    ),
    **dict.fromkeys(_INDIAN_LANGUAGES, _INDIAN),
    # The stop of an abbreviation: of consonants alone, or before the word it belongs to.
    "th": ((re.compile(r"\.(?<=[ก-ฮ]\.)(?:(?=\S)|(?<=\W[ก-ฮ]\.)|(?<=\W[ก-ฮ]{2}\.))"), ","),),
    # Law gazettes: "BGBl. I S. 5".
    "de": ((re.compile(r"\.(?<=[A-Za-z][Bb]l\.)(?= )"), ","),),
    # A verb of saying follows a quotation.
    "ko": ((re.compile(r"[.?!](?=[\"”'’](?:라고|라는|고 |하고|하며))"), ","),),
    # The little section separates clauses, and 104F is a genitive mark within them.
    "my": ((re.compile("[၊၏]"), "、"),),
    # A shad behind which a space stands ends a sentence or a clause.
    **dict.fromkeys(("bo", "dz"), ((re.compile(r"[།༎](?=\s)"), _STOP),)),
    # The question mark of Unicode's own.
    "el": ((re.compile("\u037e"), ";"),),
    # The khan ends a sentence, the bariyoosan a document.
    "km": ((re.compile("[។៕]"), _STOP),),
}
# Language -> words that begin sentences and no names. Where one follows a letter with a stop, the
# letter is no initial: "in Base X. |The", "5 m. |It".
_BEGINNINGS: Mapping[str, str] = {
    "en": "According After Also Although And As At Because Before But By Each During For From He "
    "Her His How However If In It Its Many Most Since She So Some That The Their Then There These "
    "They This Those Thus To We What When Where While With You",
    "de": "Aber Als Auch Auf Aus Bei Da Danach Das Dem Den Der Die Dies Diese Dieser Doch Ein Eine "
    "Er Es Für Im In Ihr Mit Nach Sein Seine Seit Sie So Und Wenn Wie",
    "es": "Además Al Como Con Cuando El En Es Esta Este Fue Los Las Para Pero Por Se Su Sus Un "
    "Una Y",
    "fr": "Au Aux Avec Ce Ces Cette Dans Elle Elles En Et Il Ils Les Mais On Par Pour Sa Si Son Un "
    "Une",
    "it": "Al Anche Come Con Dopo Fu Gli I Il In Ma Nel Nella Per Quando Questa Questo Si Sono Un "
    "Una",
    "nl": "Als Bij Daarna Deze Die Dit Een En Er Haar Hij Het In Maar Met Na Om Ook Op Voor Zij",
    "pt": "Ao Após Como Com Em Ele Ela Essa Esse Esta Este Foi Mas Na No O Os Para Por Quando Um",
    "ro": "Acest Aceste Care Cu Dar Din După El Ele Este În La O Pentru Prin Se Și Un",
    "tr": "Aslında Bazı Ben Bir Biz Bu Bunlar Bunun Daha O Onun Sonra Ve",
    "sv": "Av De Den Det Detta Dock Efter En Ett För Han Hans Hon I Med Men När Och På Som Till",
}
# Number of segments of which most may begin with small letters though the text has capitals.
_FEW_SEGMENTS = 6
# Language -> words that the splitter takes for abbreviations of states, months and ranks, which
# have capitals, or of units. Before a capital letter they end a sentence.
_WORDS: Mapping[str, str] = {
    "en": "me no may ill ore ark arc art miss ok re id pa mm",
    "da": "med var ned del to din da maj jul",
    "de": "mich ok",
    "es": "mar bien no contra ante extra auto mini da sobre km cm mm mg",
    "et": "ala me",
    "fr": "vol sec art",
    "hr": "pa me no",
    "hu": "nem no",
    "it": "mai fa va via su ore targa spot radar laser bar gel sol fin km cm mm mq",
    "lv": "no pa",
    "nl": "me pas top best hand dat vol",
    **dict.fromkeys(("no", "nb", "nn"), "det med ut del min ord kan ark"),
    "pt": "vi",
    "ro": "sens loc va alta ore",
    "sk": "tu",
    "sl": "pa med me maj mar del res",
    "sv": "det med ut del min kan hon sen ord",
    "tr": "sen ver al ut kan",
}
# Stands for the stop behind such a word.
_MARK = "!"
# Languages whose rules take the splitter a hundred times as long, and others whose rules are alike.
_RULES_OF = {"da": "de", "kl": "de", "ca": "es", "oc": "fr", "it": "en"}
# Where the splitter ends a sentence and no sentence ends.
# Characters with which no sentence begins, and those behind which a hyphenated word goes on where
# no space stands: "av. J.|-C.".
_GOES_ON, _HYPHENATED = re.compile(r"[.,:;/?!]|[+=] "), re.compile(r"[-–][\w\[]")
_NO_WORDS = re.compile(r"[\W_]{1,9}")
# Small letters other than Georgian ones, also behind an opening mark or a dash, but not that of an
# item, "(a)".
_SMALL = re.compile(r"(?!\(?[a-z]\)\s)[\"“„«(–—-]*\s?([^\W\d_ა-ჿ])")
# A stop behind a word that is too long for an abbreviation, or behind a bracket, ends a sentence
# before a small letter.
_LONG_WORD = re.compile(r"(?:(?<!\w)[^\W\d_]{6,}|[^.]\))\. $")
# Characters of the longest last words of a segment that the rules below name, with white space.
_LONGEST_LAST_WORD = 11
# A letter that is a part of an abbreviation, "a.|C.", or an initial, "J. |Smith". "I" is mostly a
# word or a number.
_ONE_LETTER = re.compile(r"\b[^\W\d_]\.$")
_TWO_LETTERS = re.compile(r"\b[^\W\d_A-Z]\.\s[^\W\d_]\.$")
_INITIAL = re.compile(r"(?:^|[\s.(“\"-])[^\W\d_I]\.\s$")
# The name of a speaker, which begins a paragraph of a play.
_SPEAKER = re.compile(rf"(?:{_CAPITAL_LETTER}\w{{1,9}} ){{1,2}}{_CAPITAL_LETTER}\. ")
# The number of an item, or of a ruler, if it is all of a segment.
_ITEM = re.compile(r"\(?(?:\d{1,4}(?:\.\d{1,3})*|[IVXL]{1,5})[.)]\s?")
# Letters of words without vowels, which are abbreviations.
_CAPITAL, _CONSONANT = "[B-DF-HJ-NP-TV-XZČŠŽ]", "[b-df-hj-np-tv-xzçćčďğģķļłńňņřśşšťźżž]"
# What ends no sentence before a capital letter: titles, "versus", "so called", "for example".
_TITLE = re.compile(
    r"(?:\b(?:[DM]r|M[mr]?s|Messrs|Chr|Mmes?|Mlles?|Mnr|Gng|Ste?|Sf|[Ss]v|[Mm]ag|Prof|Sra?|Sta|Hl|Dl|[Dd]na|[Dd]hr|[Mm]evr|hab|Hrsg?|Gen|Col|Lt"
    r"|Rev|Ing|Joh|Seb|Fa|Av|vs?|vit|tzw|[EeÈè]sim|[Nn]př|[Nn]pr?|Örn|Piem|Ekz|TP|PGS|TS|GS|ThS"
    r"|[Пп]роф|[Уу]л|[Гг]р|[Ии]м|[Кк]|Δρ|[Κκ])"
    # The first word of a sentence, "Pvz.", "Jl.".
    rf"|^(?!Mh?m){_CAPITAL}{_CONSONANT}{{1,2}}"
    # An abbreviation with points inside, "t.ex.", "a.Chr.", but none that ends sentences: "5 p.m.",
    # "and others", "and the like".
    r"|(?<!\w)(?![apmv]\.m|m\.fl|[oeu]\.)[^\W\d_]{1,2}\.[^\W\d_A-Z]{1,3})\.\s$"
)
# What stands before a number, a part of one, "(1)", or a Roman one.
_REFERENCE = re.compile(
    r"(?:\b(?:figs?|eqs?|tab[ls]?|s[eé]cs?|refs?|coll|cad|sok|mah|bkz|ik|n[or]s?|n[úu]ms?|vols?|ch|chaps?|cap|kap|p[aáà][gx]|pp?|arts?|abs|abb|abt|al"
    r"|alin|bd|bl[dz]?|kl|ca|cca|ok|obr|rys|approx|kb|ks|str|št|č|čl|ust|pkt|godz|zob|рис|табл|стр|гл|ст|п|см|αρ|σελ|εικ"
    rf"|max|min|tel|tél|(?-i:(?!k[gm]|[cm]m|ml|ft|hrs?)(?:{_CAPITAL}|{_CONSONANT}){_CONSONANT}{{1,3}})|[^\W\d_])|\w\.[^\W\d_]{{1,2}})\.\s{{0,2}}$",
    re.IGNORECASE,
)
_NUMBER = re.compile(rf"[([]?\d|[([](?!{_CAPITAL_LETTER}\w)|(?:[IVXL]{{2,}}|[VX])\b")
# The day before a month, "9. |2. |1999. ", or the year before both, "1990. |5. |3.".
_DAY = re.compile(r"(?:^|\s)\d\d?(\d\d)?\.\s$")
_MONTH = re.compile(r"\d\d?\.[\s,]|\d{4}\.\s")
_WITH_YEAR_FIRST = ("hu", "ko")
# The splitter also ends sentences before what resembles the number of an item, "46% (46) of".
_WITHOUT_MARK = re.compile(rf"[^\s{re.escape(SENTENCE_ENDS)}\"'”’»)\]」』）】\u0e00-\u0eff]\s*$")
# Language -> what goes on before a capital letter or a digit.
_WITH_CAPITAL_NOUNS = ("de", "lb")
_BEFORE_NAME = {
    # Ordinals; what they count is a noun. Korean dates are "1990. 5. 3."
    **dict.fromkeys((*_WITH_CAPITAL_NOUNS, "ko"), re.compile(r"(?:^|\s)\d\d?\.\s$")),
    "it": re.compile(
        r"\b(?:sig|dott|avv|on|ing|arch|geom|rag|card|mons|cap|ten|egr|spett|cfr|ed)\.\s$",
        re.IGNORECASE,
    ),
    "ro": re.compile(r"\b(?:î|str)\.\s$"),
    # Year and century.
    "kk": re.compile(r"\b[жғ]\.\s$"),
    # Saint, named after, general, street, priest, count, Mr and Mrs.
    "pl": re.compile(r"\b(?:[śŚ]w|im|gen|ul|ks|hr|pp?)\.\s$"),
}
# What begins a sentence after a number in German, and is no noun.
_NO_NOUN = re.compile(
    r"(?:Aber|Alle|Als|Also|Am|An|Auch|Auf|Aus|Bei|Beim|Bis|D(?:a\w{0,4}|e[mnrs]|ein\w{0,2}|ie\w{0,3}|u)|Doch|E[rs]|Ein\w{0,2}|Für|Hier|I[chmn]+"
    r"|Ih[mnr]\w?|Kein\w?|Man|Mit|Nach|Nun|Nur|Ob|Seit|Sein\w?|Sie|So|Um|Und|Vo[mnr]|W[aeio]\w{0,4}|Zu[mr]?)\b"
)
# The number of an item, which belongs to the next segment.
_OF_NEXT = re.compile(r"(?<=[.!?…:]\s)(?:\d{1,4}\.){1,4}\s?$")
# The mark of a note, the number of its page, or marks of direction, which no space separates from
# the end of a sentence.
_NOTE = re.compile(
    r"(?:\[[^][]{1,30}\]|\(\d{1,3}\)|[¹²³⁰⁴-⁹\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+|\*{1,3}"
    r"|:\d{1,4}(?:[–,-]\d{1,4})*)+(?=\s|\Z)\s*"
)

# Thai has no mark for the end of a sentence. A space stands between sentences, and also inside of
# them: around numbers, foreign words and quotations, and between clauses.
_THAI_SPACE = re.compile(
    r"(?<=[\u0e00-\u0e7f”\")])[ ]+(?=[\u0e01-\u0e2e\u0e40-\u0e44])"
    # A clause goes on with: and, or, but, which, that, in order to, from, because, such as, when,
    # until, with, by, of, in.
    r"(?!และ|หรือ|แต่|ที่|ซึ่ง|ว่า|เพื่อ|จาก|เพราะ|เช่น|เมื่อ|จน|กับ|โดย|ของ|ใน)"
)
# Least number of characters of a Thai sentence; of the lengths 1, 20, 30 … 80 the one that agrees
# best with the training set of UD Thai-TUD.
SHORTEST_THAI = 20

# Words that are divided at the ends of lines.
# A part of a word before a hyphen at a line's end (or, where lines were joined, a space), and the
# rest.
_DIVIDED = re.compile(rf"\b[^\W\d_]{{2,}}-[ \n](?!{JOINS_WORDS})[a-zß-ÿ]{{2,}}")
# Least share of the words that are divided, for a warning. Scanned pages of 10 words a line, of
# which each tenth ends within a word, have 1 %.
_LEAST_SHARE = 0.001
_LEAST_COUNT = 5

# Words of scripts without spaces.
# Values of --segmenter.
NO_SEGMENTER, ICU, SUDACHI = "none", "icu", "sudachi"
# Segmenter -> the languages whose words it finds.
LANGUAGES_OF = {ICU: ("zh", "ja", "th", "lo", "km", "my"), SUDACHI: ("ja",)}
SEGMENTERS = (NO_SEGMENTER, *LANGUAGES_OF)
# Segmenter -> the packages whose versions decide the words.
PACKAGES = {NO_SEGMENTER: (), ICU: ("icu4py",), SUDACHI: ("sudachipy", "sudachidict-small")}
# Codes of a character: whether it begins a word is decided by the vocabulary, or here.
BY_VOCABULARY, CONTINUES, BEGINS = range(3)
# Number of characters for one call of Sudachi, which takes up to 49,149 bytes.
_CHARACTERS_AT_A_TIME = 10_000
# Finds where the words of a text begin, in characters from its first.
Segmenter = Callable[[str], Iterable[int]]


class SplitText(NamedTuple):
    """A document in sentences.

    Attributes:
      sentences: at least one sentence.
      unspaced: numbers of the sentences that no white space separates from the one before, counted
        from 0, in ascending order. White space of any kind stands between the others.
    """

    sentences: Sequence[str]
    unspaced: Sequence[int] = ()


def split_sentences(
    document: Document, language: str = DEFAULT_LANGUAGE, model: SentenceModel | None = None
) -> list[str]:
    """Returns the sentences of a document in order, without blank ones.

    Args:
      document: document whose line feeds separate paragraphs, or sentences if it is split already.
      language: ISO 639-1 code for sentencex, which has generic rules for unknown languages.
      model: model that finds the sentences in place of sentencex.
    """
    paragraphs = _paragraphs(document.text)
    if document.is_split:
        return paragraphs
    sentences: list[str] = []
    # The model's package needs up to a kilobyte for each character.
    for text in _windows(paragraphs, LONGEST_PARAGRAPH if model else WINDOW):
        if model:
            sentences += model.split(text)
            continue
        found: Iterable[str] = map(str.strip, _sentences(text, language))
        if language == "th":
            found = itertools.chain.from_iterable(map(split_clauses, found))
        sentences += filter(None, found)
    return sentences


def find_unspaced(text: str, sentences: Sequence[str]) -> tuple[int, ...]:
    """Returns the numbers of the sentences of a text as `SplitText.unspaced` has them.

    Args:
      text: the text that was split.
      sentences: its sentences, of which none begins with white space.
    """
    found, end = [], 0
    for number, sentence in enumerate(sentences):
        if text.startswith(sentence, end):
            start = end
            if number:
                found.append(number)
        else:
            start = text.index(sentence, end)
        end = start + len(sentence)
    return tuple(found)


def _sentences(text: str, language: str) -> list[str]:
    """Returns the sentences of a text, with the white space behind each.

    The splitter takes the text for another one of the same length, and its pieces are joined where
    no sentence ends. Text most of whose pieces begin with small letters was lower-cased. In all
    other text, no sentence begins with a small letter.
    """
    # The parser of a command's flags imports this module, and needs no splitter.
    import sentencex

    known = with_stand_ins(text, language)
    if stops := _stops(language):
        known = stops.sub(_MARK, known)
    pieces = sentencex.segment(_RULES_OF.get(language, language), known)
    sentences: list[str] = []
    start = end = 0
    is_cased = None
    for piece in pieces:
        # The splitter drops some white space.
        begin = end if known[end] == piece[0] else known.index(piece, end)
        end = begin + len(piece)
        is_line = text[begin - 1] == "\n"
        if not begin or (piece.isspace() and not is_line):
            continue  # It belongs to what is before.
        is_plain = is_line or _is_plain_end(text, start, begin, language)
        if not is_plain:
            opened = _with_opening(text, start, begin)
            if opened == start:
                continue
            is_plain = opened < begin and _is_plain_end(text, start, opened, language)
            begin = opened
        if is_plain:
            sentences.append(text[start:begin])
            start = begin
            continue
        if is_cased is None and not text[begin].isupper():
            is_cased = _is_cased(pieces)
        last = text[max(start, begin - _LONGEST_LAST_WORD) : begin]
        behind = end + 2 * text.startswith("\n\n", end)
        note = None if last[-1].isspace() else _NOTE.match(text, begin, behind)
        place, begin = begin, note.end() if note else begin
        segment = text[begin:behind]
        is_first = not start or text[start - 1] == "\n"
        is_speaker = is_first and _SPEAKER.fullmatch(text, start, begin)
        if not segment or is_speaker or _goes_on(last, segment, language, is_cased):
            continue
        if (part := _OF_NEXT.search(last)) and not _REFERENCE.search(last, 0, part.start()):
            begin = place - len(part[0])
        sentences.append(text[start:begin])
        start = begin
    return [*sentences, text[start:]]


def _with_opening(text: str, start: int, begin: int) -> int:
    """Returns where a piece of a sentence from `start` begins with the marks that open it."""
    if text[begin - 1] == " " and text[begin - 2] in _MAY_OPEN and _opens(text, begin - 2):
        begin -= 2
    while begin > start and text[begin - 1] in _OPENING:
        is_closing = text[begin - 1] in "”»" or text.startswith('"--', begin - 1)
        if is_closing and not text[begin - 2].isspace():
            break
        begin -= 1
    return begin


def _is_cased(pieces: Sequence[str]) -> bool:
    """Whether small letters don't begin most of the pieces, those behind ordinals not counted."""
    small = [number for number, piece in enumerate(pieces) if piece[0].islower()]
    count = sum(not (number and pieces[number - 1][-3:-2].isdigit()) for number in small)
    return 2 * count <= max(len(pieces), _FEW_SEGMENTS * pieces[0][0].isupper())


@functools.cache
def _stops(language: str) -> re.Pattern[str] | None:
    """Returns what finds the stops that the splitter takes for those of abbreviations."""
    by_length: dict[int, list[str]] = {}
    for word in _WORDS.get(language, "").split():
        by_length.setdefault(len(word), []).append(word)
    before = [rf"(?<= (?:{'|'.join(words)})\.)" for words in by_length.values()]
    # A pattern that begins with the stop is many times as fast as one that begins with the words.
    found = [rf"(?:{'|'.join(before)})(?=\W{{0,8}}{_CAPITAL_LETTER})"] if before else []
    if begins := _begins_sentence(language):
        found.append(rf"(?<=[\s.(][^\W\d_]\.)(?=\s{begins.pattern})")
    return re.compile(rf"\.(?:{'|'.join(found)})") if found else None


@functools.cache
def _begins_sentence(language: str) -> re.Pattern[str] | None:
    words = _BEGINNINGS.get(language, "").split()
    return re.compile(rf"(?:{'|'.join(words)})\b(?!\.)") if words else None


def _is_plain_end(text: str, start: int, begin: int, language: str) -> bool:
    """Whether a sentence that begins at `start` certainly ends before a capital letter, as most do.

    It may go on behind a short word with a stop, an opening mark, or the number of an item.
    """
    first = text[begin]
    if first in '"“':
        first = text[begin + 1 : begin + 2]
    if not first.isupper() or text[begin - 1] != " " or begin - start < 8:
        return False
    mark = text[begin - 2]
    if mark not in ".)":
        return mark not in _MAY_OPEN
    if text[begin - 7 : begin - 2].isalpha():
        return True
    word = text[begin - 7 : begin - 1]
    parts = " " in word or "-" in word or "—" in word or "." in word[:-1]
    if word[-2] == " " or not parts:
        return True
    last_word = text[max(start, text.rfind(" ", start, begin - 1) + 1) : begin - 1]
    return _is_no_abbreviation(last_word, language) and not _NUMBER.match(text, begin)


@functools.lru_cache(1 << 14)
def _is_no_abbreviation(word: str, language: str) -> bool:
    """Whether a short word with a stop is one of letters that no rule for capitals names."""
    before_name = _BEFORE_NAME.get(language, _TITLE)
    is_known = _TITLE.search(f"{word} ") or before_name.search(f"{word} ")
    return not is_known and bool(re.fullmatch(r"[^\W\d_]{2,}\.", word))


def _opens(text: str, place: int) -> bool:
    """Whether a mark between spaces, or two of them, open a quotation."""
    mark, start = text[place], text.rfind("\n", 0, place) + 1
    if text[place - 1 : place] not in (" ", "`", ""):
        return False
    if mark == '"':
        return text.count('"', start, place) % 2 == 0
    return mark != "»" or text.count("»", start, place) >= text.count("«", start, place)


def _goes_on(end: str, segment: str, language: str, is_cased: bool) -> bool:
    """Whether a sentence goes on from a segment, of which `end` is the end, to the next one."""
    first = segment[0]
    if not first.isupper():
        is_hyphenated = _HYPHENATED.match(segment) and not end[-1].isspace()
        if is_hyphenated or _GOES_ON.match(segment) or _NO_WORDS.fullmatch(segment):
            return True
        if is_cased and (letter := _SMALL.match(segment)) and letter[1].islower():
            return not _LONG_WORD.search(end) or bool(_REFERENCE.search(end))
    if end.endswith((".", ". ")):
        if _ONE_LETTER.search(end) or _TWO_LETTERS.search(end + segment[:2]):
            return True
        if first.isupper() and not segment[1:2].isspace() and (found := _INITIAL.search(end)):
            if (begins := _begins_sentence(language)) and begins.match(segment):
                return False
            if found[0].strip().isupper():
                return True
        if first.isupper() and _TITLE.search(end):
            return True
    if _ITEM.fullmatch(end):
        return True
    if _NUMBER.match(segment) and (_REFERENCE.search(end) or _WITHOUT_MARK.search(end)):
        return True
    if _MONTH.match(segment) and (day := _DAY.search(end)):
        return not day[1] or language in _WITH_YEAR_FIRST
    before_name = _BEFORE_NAME.get(language)
    if first.islower() or not first.isalnum() or not (before_name and before_name.search(end)):
        return False
    return language not in _WITH_CAPITAL_NOUNS or not _NO_NOUN.match(segment)


def _windows(paragraphs: Iterable[str], most: int) -> Iterator[str]:
    """Yields paragraphs joined by blank lines, which end sentences, `most` characters at a time."""
    held: list[str] = []
    size = 0
    for paragraph in paragraphs:
        if held and size + len(paragraph) > most:
            yield "\n\n".join(held)
            held, size = [], 0
        held.append(paragraph)
        size += len(paragraph)
    if held:
        yield "\n\n".join(held)


def _paragraphs(text: str) -> list[str]:
    """Returns the lines of a text, long ones in pieces, without blank ones."""
    lines = filter(None, map(str.strip, text.split("\n")))
    if len(text) <= LONGEST_PARAGRAPH:  # There is no longer line.
        return list(lines)
    return [piece for line in lines for piece in map(str.strip, _pieces(line)) if piece]


def _pieces(paragraph: str) -> Iterator[str]:
    """Yields a paragraph in pieces of at most `LONGEST_PARAGRAPH` characters.

    The cut is near the greatest length, preferably after the end of a sentence, else at a space, or
    else anywhere.
    """
    start = 0
    while len(paragraph) - start > LONGEST_PARAGRAPH:
        end = _cut(paragraph, start, start + LONGEST_PARAGRAPH)
        yield paragraph[start:end]
        start = end
    yield paragraph[start:]


def _cut(text: str, start: int, end: int) -> int:
    """Returns the index at which to cut, in the last tenth before `end`; see `_pieces`."""
    low = end - (end - start) // 10
    marks = (text.rfind(mark, low, end) for mark in (". ", "? ", "! ", "。", "！", "？", "।"))
    at = max(marks)
    if at < 0:
        at = text.rfind(" ", low, end)
    return end if at < 0 else at + 1


def with_stand_ins(text: str, language: str) -> str:
    """Returns a text of the same length, whose sentences the splitter ends where `text` has them.

    Args:
      text: paragraphs.
      language: code of ISO 639-1.
    """
    for pattern, character in _STAND_INS.get(language, ()):
        text = pattern.sub(character, text)
    # A function takes no time where nothing is found, unlike a string with a group.
    text = _NOTE_NUMBER.sub(lambda found: f"{found[1]}.", text)
    if "(" in text:
        text = _ITEM_BRACKET.sub("_", text)
        text = _KEPT_BRACKETS.sub(lambda found: f"\x0e{found[1]}\x0f", text)
    text = f"\n{text}"
    for mark in _ASCII_QUOTATION if text.isascii() else _QUOTATION:
        text = text.replace(mark, " ")
    if "'" in text:
        text = _APOSTROPHES.sub(lambda found: " " * len(found[0]), text)
    for mark, pattern in _BEFORE_I.items():
        text = pattern.sub(",", text) if mark in text else text
    text = _LESS.sub("=", text) if "<" in text else text
    return text.replace("\x0e", "(").replace("\x0f", ")")[1:]


def split_clauses(sentence: str) -> list[str]:
    """Returns the parts of a Thai sentence between spaces that may end one.

    A part has `SHORTEST_THAI` characters or more, except for the last one.
    """
    start, parts = 0, []
    for space in _THAI_SPACE.finditer(sentence):
        if space.start() - start >= SHORTEST_THAI:
            parts.append(sentence[start : space.start()])
            start = space.end()
    return [*parts, sentence[start:]]


def divided_word_notes(documents: Iterable[Document]) -> list[str]:
    """Returns the warning about words that a hyphen and a line's end or a space divide; or none."""
    count, words, example, has_lines = 0, 0, "", False
    for document in documents:
        text, found = document.text, _DIVIDED.findall(document.text)
        count, words = count + len(found), words + text.count(" ") + text.count("\n")
        example = example or next(iter(found), "").replace("\n", " ")
        # Where lines were joined, a space was the end of one.
        has_lines |= bool(found) and ("wrapped_line" in document.cleaned or "\n" in "".join(found))
    if count < max(_LEAST_COUNT, _LEAST_SHARE * words):
        return []
    where, remedy = "before spaces", ""
    if has_lines:
        where = "at the ends of lines"
        remedy = r", for example with perl -CSD -0777 -pe 's/(\p{L})-\R(\p{Ll})/$1$2/g'"
    return [
        f"warning: hyphens divide {count:,} words of a sample {where}, such as “{example}”, whose "
        f"parts become words; join them before{remedy}"
    ]


def check_segmenter(name: str, language: str, language_column: str, hides_words: bool) -> None:
    """Checks that a segmenter has an effect, knows the language, and is installed.

    Args:
      name: value of --segmenter.
      language: value of --language.
      language_column: value of --language_column; "" for none.
      hides_words: whether the masks hide whole words.

    Raises:
      InputError: it is refused.
    """
    if name == NO_SEGMENTER:
        return
    flag = f"--segmenter={name}"
    if not hides_words:
        raise InputError(
            f"{flag}: has an effect only on the masks of whole words; add --masks=whole_word or "
            "--masks=span, or leave it out"
        )
    known = LANGUAGES_OF[name]
    if name == SUDACHI and language_column:
        raise InputError(
            f"{flag}: knows Japanese alone, and cannot be given with "
            f"--language_column={language_column}; give --segmenter={ICU}, which goes by the script"
        )
    if language not in known and not language_column:
        raise InputError(
            f"{flag}: knows the words of {', '.join(known)}, but not of "
            f"--language={language}; name the language of the text, or leave --segmenter out"
        )
    _make(name)


def mark_words(texts: Sequence[str], name: str) -> np.ndarray:
    """Returns the code of each character of texts, end to end, uint8 [characters].

    Args:
      texts: sentences.
      name: segmenter, a key of `LANGUAGES_OF`.
    """
    joined = "".join(texts)
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4")
    is_unspaced = _unspaced()[codes]
    begins = np.zeros(len(codes), bool)
    segmenter, start = _make(name), 0
    for text in texts:
        if is_unspaced[start : start + len(text)].any():
            # The library takes no half of a surrogate pair, which broken JSON may have.
            whole = text.encode("utf-8", "replace").decode()
            begins[[start + offset for offset in segmenter(whole)]] = True
        start += len(text)
    of_words = np.where(begins, np.uint8(BEGINS), np.uint8(CONTINUES))
    return np.where(is_unspaced, of_words, np.uint8(BY_VOCABULARY))


def segmenter_notes(texts: Iterable[str], name: str, hides_words: bool) -> list[str]:
    """Returns the line about masks of whole words in scripts whose words nobody finds; else none.

    Args:
      texts: texts from the corpus.
      name: value of --segmenter.
      hides_words: whether the masks hide whole words.
    """
    if name != NO_SEGMENTER or not hides_words:
        return []
    letters = unspaced = 0
    for text in texts:
        letters += sum(map(str.isalpha, text))
        unspaced += len(UNSPACED_CHARACTER.findall(text))
    if 2 * unspaced <= letters or not letters:
        return []
    return [
        "masks: no spaces separate the words of this text, so that a single Chinese character and "
        "a whole run of kana or Thai count as words; --segmenter finds the words"
    ]


@functools.cache
def _make(name: str) -> Segmenter:
    return {ICU: _icu, SUDACHI: _sudachi}[name]()


def _icu() -> Segmenter:
    with needs(f"--segmenter={ICU}", "icu4py", "segmenters"):
        from icu4py.breakers import WordBreaker

    def starts(text: str) -> Iterable[int]:
        found = [start for start, _ in WordBreaker(text, "und").segments()]
        # ICU counts in halves of UTF-16, of which rare characters and emoji have two.
        if max(text) <= "\uffff":
            return found
        halves = np.cumsum([0, *(1 + (character > "\uffff") for character in text)])
        return np.searchsorted(halves, found)

    return starts


def _sudachi() -> Segmenter:
    with needs(f"--segmenter={SUDACHI}", "SudachiPy and sudachidict-small", "segmenters"):
        import sudachidict_small  # noqa: F401  (SudachiPy finds the dictionary by its name)
        from sudachipy import Dictionary
    tokenizer = Dictionary(dict="small").tokenizer()

    def starts(text: str) -> Iterable[int]:
        for first in range(0, len(text), _CHARACTERS_AT_A_TIME):
            part = text[first : first + _CHARACTERS_AT_A_TIME]
            yield from (first + word.begin() for word in tokenizer.tokenize(part))

    return starts


@functools.cache
def _unspaced() -> np.ndarray:
    """Returns whether each character is of a script without spaces, bool [0x110000]."""
    found = np.zeros(0x110000, bool)
    ranges = UNSPACED.split("-")
    # "a-bc-d" is written for a to b and c to d.
    for first, last in zip(ranges[:-1], ranges[1:], strict=True):
        found[ord(first[-1]) : ord(last[0]) + 1] = True
    return found
