"""The results of reading (documents, skipped parts, rejects), and codes of languages. Pure."""

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Mapping

from beambert.errors import InputError
from beambert.pipelines.corpus.encodings import wrong_encoding

# Reason of a row without the column of texts.
NO_TEXT = "no_text"
# Reason of a document that isn't UTF-8.
NOT_UTF8 = "not_utf8"
# The codes of ISO 639-1, each with that of ISO 639-3.
_CODES = (
    "aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak "
    "be:bel bg:bul bi:bis bm:bam bn:ben bo:bod br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre "
    "cs:ces cu:chu cv:chv cy:cym da:dan de:deu dv:div dz:dzo ee:ewe el:ell en:eng eo:epo es:spa "
    "et:est eu:eus fa:fas ff:ful fi:fin fj:fij fo:fao fr:fra fy:fry ga:gle gd:gla gl:glg gn:grn "
    "gu:guj gv:glv ha:hau he:heb hi:hin ho:hmo hr:hrv ht:hat hu:hun hy:hye hz:her ia:ina id:ind "
    "ie:ile ig:ibo ii:iii ik:ipk io:ido is:isl it:ita iu:iku ja:jpn jv:jav ka:kat kg:kon ki:kik "
    "kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor kr:kau ks:kas ku:kur kv:kom kw:cor ky:kir la:lat "
    "lb:ltz lg:lug li:lim ln:lin lo:lao lt:lit lu:lub lv:lav mg:mlg mh:mah mi:mri mk:mkd ml:mal "
    "mn:mon mr:mar ms:msa mt:mlt my:mya na:nau nb:nob nd:nde ne:nep ng:ndo nl:nld nn:nno no:nor "
    "nr:nbl nv:nav ny:nya oc:oci oj:oji om:orm or:ori os:oss pa:pan pi:pli pl:pol ps:pus pt:por "
    "qu:que rm:roh rn:run ro:ron ru:rus rw:kin sa:san sc:srd sd:snd se:sme sg:sag si:sin sk:slk "
    "sl:slv sm:smo sn:sna so:som sq:sqi sr:srp ss:ssw st:sot su:sun sv:swe sw:swa ta:tam te:tel "
    "tg:tgk th:tha ti:tir tk:tuk tl:tgl tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi ty:tah ug:uig "
    "uk:ukr ur:urd uz:uzb ve:ven vi:vie vo:vol wa:wln wo:wol xh:xho yi:yid yo:yor za:zha zh:zho "
    "zu:zul"
)
_LONG_CODES = {long: short for short, long in (pair.split(":") for pair in _CODES.split())}
LANGUAGES = frozenset(_LONG_CODES.values())
# Codes of ISO 639-3 for the standard form of a language, which corpora of the web use in its place.
_LONG_CODES |= {
    **{"arb": "ar", "azj": "az", "cmn": "zh", "ekk": "et", "khk": "mn", "lvs": "lv", "npi": "ne"},
    **{"ory": "or", "pes": "fa", "swh": "sw", "uzn": "uz", "yue": "zh", "zsm": "ms"},
}
DEFAULT_LANGUAGE = "en"
# A tag of BCP 47, such as zh-Hant-TW, also with underscores, as in eng_Latn.
_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Document:
    """One document.

    Attributes:
      text: paragraphs (or, if `is_split`, sentences) separated by line feeds.
      is_split: True if each line is one sentence already.
      encoding: encoding of the file's bytes.
      cleaned: number of pieces of markup that were removed from the text, by reason.
      language: code of its language, see `language_of`; "" if the file names none.
      removed: number of characters that cleaning removed.
    """

    text: str
    is_split: bool = False
    encoding: str = "utf-8"
    cleaned: Mapping[str, int] = dataclasses.field(default_factory=dict, compare=False)
    language: str = ""
    removed: int = dataclasses.field(default=0, compare=False)

    def clean(self, rule: Callable[[str], tuple[str, Mapping[str, int]]]) -> "Document":
        """Returns the document with the text and the counts that a rule gives for its text."""
        if self.text.isspace():  # Many pages of a wiki have nothing below their title.
            return self
        text, counts = rule(self.text)
        if not counts:
            return self
        # It takes a third of the time of `dataclasses.replace`.
        return Document(text, self.is_split, self.encoding, counts, self.language, self.removed)


@dataclasses.dataclass(frozen=True)
class Skip:
    """A readable part of a file that is not a document to learn from, such as a redirect.

    Attributes:
      reason: a word or two, under which info.json counts it.
    """

    reason: str


@dataclasses.dataclass(frozen=True)
class Reject:
    """A part of a file that cannot be read as a document.

    Attributes:
      line: number of its first line in the file, from 1.
      reason: a word or two, under which info.json counts it.
      detail: message that helps a person to fix it.
    """

    line: int
    reason: str
    detail: str


# A result of reading.
Found = Document | Skip | Reject


def count_read(row: Found, counts: Counter[str]) -> None:
    """Counts a result of reading.

    Args:
      row: the result.
      counts: counts to add to. Each result adds 1 to "read". A skipped part adds 1 to "dropped "
        and its reason, and a reject to "rejected " and its reason. A document adds 1 to "encoding "
        and the name of its encoding, and its removed markup to "cleaned " and their reasons.
    """
    counts["read"] += 1
    if isinstance(row, Reject):
        counts["rejected " + row.reason] += 1
    elif isinstance(row, Skip):
        counts["dropped " + row.reason] += 1
    else:
        counts["encoding " + row.encoding] += 1
        for reason, count in row.cleaned.items():
            counts["cleaned " + reason] += count


def decode_document(raw: bytes, line: int, is_split: bool = False) -> Document | Reject:
    """Returns the document in UTF-8 bytes that start on line `line` of a file, or a reject.

    Args:
      raw: the bytes.
      line: number of the line.
      is_split: whether each line of the document is one sentence.
    """
    try:
        return Document(raw.decode("utf-8"), is_split)
    except UnicodeDecodeError as error:
        found = wrong_encoding(error, line)
        return Reject(found.line, NOT_UTF8, str(found))


def language_of(tag: str) -> str:
    """Returns the code of a tag's language; "" if the tag names none.

    The code is that of ISO 639-1 where the language has one. Any other code of three letters is
    returned as it is, since there are some 7,000 of them.

    Args:
      tag: tag of BCP 47, such as "de", "zh-Hant", "pt_BR" or "tha_Thai".
    """
    found = _TAG.fullmatch(tag.strip())
    code = found[1].lower() if found else ""
    if len(code) == 2:
        return code if code in LANGUAGES else ""
    return _LONG_CODES.get(code, code)


def check_language(language: str) -> None:
    """Raises InputError unless a value is an ISO 639-1 code ("us" is a country, not a language)."""
    if language not in LANGUAGES:
        raise InputError(
            f"--language={language}: is not an ISO 639-1 code; give that of the text's language, "
            "such as en or zh, or of a related language"
        )
