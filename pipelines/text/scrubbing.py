"""Replaces personal data, such as addresses of mail and numbers of telephones. Pure.

What is found becomes a word in brackets, `[email]`. Each of these words and both brackets are
tokens of Google's vocabularies, cased and uncased, so that a placeholder is three tokens in all. It
holds nothing that a rule finds.

A rule first looks for what has the right form and then checks what can be checked: the sums of
digits, the numbering plans, the registered lengths. A number that fails the check stays.

No rule finds persons, places and the like, which takes a model of a language. A tool such as
presidio replaces them in the files, before the job.
"""

import contextlib
import functools
import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType

from beambert.errors import InputError
from beambert.pipelines.text.cleaning import UNSPACED
from beambert.process import needs

# RFC 3986, section 3: a scheme and what may stand in a URI, here of any script (RFC 3987); or a
# host that begins with "www.". Scripts without spaces go on right behind a URL, and so does their
# punctuation: these end it, even where they belong to it, since all else would delete a sentence.
_WIDE = "\u3000-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
_URL = re.compile(
    r"(?i:(?<![a-z0-9])(?:(?:https?|ftps?|sftp|wss?)://(?=[^\W_]|\[)|www\.(?=\w)))"
    rf"[^\s<>\"“”«»{{}}|\\^`{_WIDE}{UNSPACED}]+"
)
_IN_URL = ("://", "www.", "WWW.", "Www.")
# These end a sentence more often than a URL; a bracket is kept if the URL has its partner.
_AFTER_URL = ".,;:!?'’)]…*_"
# RFC 5322, section 3.2.3: a dot-string and a domain, without the marks that RFC 5322 permits in a
# name but that stand between addresses instead. The lengths are those of RFC 5321, section 4.5.3.1.
# Letters may be of any script (RFC 6531), but scripts without spaces and others never mix: what
# stands there before an address is not a part of it.
_PUNCTUATION = r"\s«»“”\u2000-\u206f\u3000-\u303f\uff00-\uff0f"
_ATOM = rf"[^\x00-\x20\"!#$&'()*,./:;<=>?@\[\\\]^`{{|}}~{_PUNCTUATION}{UNSPACED}]"
_LETTER = rf"[^\x00-\x2f:-@\[-`{{-\x7f{_PUNCTUATION}{UNSPACED}]"
_LABEL = rf"(?:{_LETTER}+(?:-+{_LETTER}+)*|[{UNSPACED}]+)"
_EMAIL = re.compile(
    rf"(?:(?<!{_ATOM})(?<!{_ATOM}\.){_ATOM}{{1,64}}(?:\.{_ATOM}{{1,64}}){{0,16}}"
    rf"|[{UNSPACED}]{{1,64}})@{_LABEL}(?:\.{_LABEL}){{1,10}}"
)
# RFC 3986, section 3.2.2, IPv4address.
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = re.compile(rf"(?<![\w.:])(?:{_OCTET}\.){{3}}{_OCTET}(?!\w|\.\d)", re.ASCII)
# Such addresses contain these, which take less time to look for.
_IN_IPV4, _IN_IPV6 = re.compile(r"\.\d{1,3}\.\d"), re.compile(r":[0-9A-Fa-f]{0,4}:")
# RFC 4291, section 2.2: groups of hexadecimal digits; the library judges the rest. The first group
# is that of a global, local or multicast address (section 2.4); others are slices and names of
# programs, unless an IPv4 address is at their end.
_IPV6 = re.compile(
    r"(?<![\w:.])(?=[23fF][0-9A-Fa-f]{3}:|[0-9A-Fa-f:]+:\d{1,3}\.)"
    r"[0-9A-Fa-f:]{2,39}(?:\.\d{1,3}){0,3}(?![\w:])"
)
# ISO 13616-1: country, two check digits, up to 30 letters and digits, printed in groups of four.
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}(?![A-Za-z0-9])")
_IN_IBAN = re.compile(r"\d\d(?<=[A-Z]{2}..)")
# ISO/IEC 7812-1: 12 to 19 digits, alone or in the groups that are printed on cards. Behind a point,
# or 0 and a comma, they are decimals.
_CARD = re.compile(
    r"(?<![\w/-])(?<!\d\.)(?<!\b0,)"
    r"(?:\d{12,19}|\d{4}([ -])(?:\d{4}\1\d{4}\1\d{4}|\d{6}\1\d{4,5}))(?![\w/]|[.-]\d)",
    re.ASCII,
)
# The first digits that the payment networks have, from their own pages as Wikipedia lists them
# ("Payment card number"): American Express, Diners Club, JCB, Visa, Mastercard, UnionPay, Discover,
# Maestro, Mir.
_NETWORK = re.compile(
    r"3[47]|3(?:0[0-5]|095|[689])|35(?:2[89]|[3-8])|4|5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|62"
    r"|6011|64[4-9]|65|81|50|5[6-9]|6[0-9]|220[0-4]"
)
# Seven digits or more with what may stand among them (ITU-T E.164 has at most fifteen).
_DIGITS = re.compile(r"\d(?:[ ()\[\]./~‐-―−-]{0,4}\d){6}", re.ASCII)
# A line with more numbers than these is of a table.
_MOST_NUMBERS = 16
# Words before numbers that are no telephone's: those of catalogues and of parts of texts and
# programs.
_AROUND = 24
_BEFORE_NUMBER = r"(?:[\s:.#=-]|\b1[03]\b|\bn[or°º]\b){0,4}[\d-]*\Z"
_CATALOGUE = re.compile(
    r"(?i)(?:\b(?:isbn|issn|ismn|pmid|pmcid|pmc|oclc|lccn|doi|arxiv|orcid|viaf|gnd|ean|upc|asin|sku|"
    r"part|pp|pages?|d?fars|cfr|sections?|clauses?|articles?|paragraphs?)|§)" + _BEFORE_NUMBER
)
_PART = re.compile(
    r"(?i)(?:\b(?:sec|sect|sections?|chap|chapters?|para|paragraphs?|clauses?|articles?|appendix|"
    r"annex|tables?|fig|figures?|equation|theorem|lemma|abschnitt|kapitel|ver|versi[oó]ns?|"
    r"releases?|build|firmware|v|oid)|§)" + _BEFORE_NUMBER
)
# Words before the number of a telephone, in some languages; without one, digits alone are any
# number, unless they begin with the 0 that many countries have before a code of their own.
_TELEPHONE = re.compile(
    r"(?i)t[eéē]l|phon|fon|fax|mob|cell|\bcall|whatsapp|sms|тел|τηλ|电话|電話|手机|携帯|전화"
)
# Single digits in a row, spans of years, decimals, and versions with a 0 between points, which a
# numbering plan may have, too.
_NO_PHONE = re.compile(
    r".*(?<!\d)\d[^\d()]+\d(?!\d).*|\W?(?:1\d|20)\d\d\D{1,3}(?:1\d|20)\d\d|\W?\d+\.\d+\W?|.*\.0\..*",
    re.ASCII,
)
# North America, the default of --phone_regions.
DEFAULT_REGIONS = ("US",)

Span = tuple[int, int]


def _urls(text: str) -> Iterator[Span]:
    if not any(mark in text for mark in _IN_URL):
        return
    for match in _URL.finditer(text):
        url = match[0]
        end = len(url)
        # Number of brackets without a partner.
        left = {")": url.count(")") - url.count("("), "]": url.count("]") - url.count("[")}
        while (mark := url[end - 1]) in _AFTER_URL:
            if mark in left:
                if left[mark] <= 0:
                    break
                left[mark] -= 1
            end -= 1
        yield match.start(), match.start() + end


def _emails(text: str) -> Iterator[Span]:
    for match in _EMAIL.finditer(text) if "@" in text else ():
        name, _, domain = match[0].rpartition("@")
        labels = domain.split(".")
        # No top-level domain has one letter, or begins with a digit (RFC 3696, section 2): it
        # begins the next sentence, or the name is a number, such as 4.5.
        while len(labels) > 1 and (len(labels[-1]) == 1 or labels[-1][0].isdigit()):
            labels.pop()
        # Marks alone are no name: programs have decorators, such as `@pytest.fixture`.
        if len(labels) > 1 and re.search(r"\w", name):
            yield match.start(), match.start() + len(name) + 1 + len(".".join(labels))


def _ips(text: str) -> Iterator[Span]:
    for match in _IPV6.finditer(text) if _IN_IPV6.search(text) else ():
        address = match[0] if match[0].endswith("::") else match[0].rstrip(":")
        with contextlib.suppress(ValueError):
            ipaddress.IPv6Address(address)
            yield match.start(), match.start() + len(address)
    for match in _IPV4.finditer(text) if _IN_IPV4.search(text) else ():
        if not _PART.search(text[max(0, match.start() - _AROUND) : match.start()]):
            yield match.span()


def _ibans(text: str) -> Iterator[Span]:
    if not _IN_IBAN.search(text):
        return
    iban = _stdnum().iban
    for match in _IBAN.finditer(text):
        # Words in capitals may follow, so that a shorter one counts, too.
        end = match.end()
        while end - match.start() >= 15:
            if iban.is_valid(text[match.start() : end], check_country=False):
                yield match.start(), end
                break
            end = max(text.rfind(mark, match.start(), end) for mark in " -")


def _cards(text: str) -> Iterator[Span]:
    for match in _CARD.finditer(text):
        digits = match[0].replace(" ", "").replace("-", "")
        if _NETWORK.match(digits) and _stdnum().luhn.is_valid(digits):
            yield match.span()


def _phones(text: str, regions: Sequence[str]) -> Iterator[Span]:
    start = 0
    for line in text.splitlines(keepends=True):
        # The library is slow, and most lines have no such numbers.
        if _DIGITS.search(line) and not _is_table(line):
            for first, behind in _numbers(line, regions):
                # A word may stand at the end of the line before.
                before = text[max(0, start + first - _AROUND) : start + first]
                if _is_written_as_telephone(before, line[first:behind]):
                    yield start + first, start + behind
        start += len(line)


def _is_table(line: str) -> bool:
    """Returns whether a line has many numbers, and more digits than letters."""
    numbers = re.findall(r"\d+", line)
    many = len(numbers) > _MOST_NUMBERS
    return many and sum(map(len, numbers)) > sum(map(str.isalpha, line))


def _numbers(line: str, regions: Sequence[str]) -> list[Span]:
    """Returns the spans of what the numbering plans of some countries, in order, take for one.

    The library finds no number next to another one, such as a date, so that it is also asked about
    each word.
    """
    library, found = _phonenumbers(), []
    words = [(match.start(), match[0]) for match in re.finditer(r"\S+", line)]
    for first, piece in [(0, line), *(word for word in words if _DIGITS.search(word[1]))]:
        for region in regions:
            for match in library.PhoneNumberMatcher(piece, region, library.Leniency.VALID):
                # It takes along a bracket that is closed behind the number.
                is_open = match.raw_string.count("(") > match.raw_string.count(")")
                start, end = first + match.start + is_open, first + match.end
                if all(end <= before or behind <= start for before, behind in found):
                    found.append((start, end))
    return sorted(found)


def _is_written_as_telephone(before: str, number: str) -> bool:
    """Returns whether a number has a sign of being a telephone's, and none of another kind."""
    if _CATALOGUE.search(before) or number[0] != "+" and _NO_PHONE.fullmatch(number):
        return False
    is_grouped = re.search(r"\d\D+\d", number) is not None
    return is_grouped or number.lstrip("(")[0] in "+0" or _TELEPHONE.search(before) is not None


# Name -> placeholder, in the order in which they are replaced: digits that are part of another are
# gone by then.
PLACEHOLDERS = {
    "url": "[link]",
    "email": "[email]",
    "iban": "[account]",
    "card": "[card]",
    "ip": "[host]",
    "phone": "[phone]",
}


def check_scrubbing(names: Sequence[str], regions: Sequence[str]) -> None:
    """Checks the values of --scrub and --phone_regions.

    Args:
      names, regions: see `scrub`.

    Raises:
      InputError: a name or a region is unknown, or a package is missing.
    """
    for name in names:
        if name not in PLACEHOLDERS:
            raise InputError(
                f"--scrub={name}: must be among {','.join(sorted(PLACEHOLDERS))}; for persons and "
                "places, run a tool such as presidio on the files before"
            )
    if {"iban", "card"} & {*names}:
        _stdnum()
    if "phone" not in names:
        if tuple(regions) != DEFAULT_REGIONS:
            raise InputError(
                f"--phone_regions={','.join(regions)}: has no effect without --scrub=phone; leave "
                "it out or add that"
            )
        return
    known = _phonenumbers().SUPPORTED_REGIONS
    for region in regions:
        if region not in known:
            raise InputError(
                f"--phone_regions={region}: is not a region with a numbering plan; name regions by "
                "their codes of ISO 3166, such as US,GB,DE"
            )


def scrub(text: str, names: Sequence[str], regions: Sequence[str]) -> tuple[str, Mapping[str, int]]:
    """Returns a text with placeholders, and the number of each by name.

    Args:
      text: a document; what is replaced stands in one line.
      names: what to replace, keys of `PLACEHOLDERS`.
      regions: codes of ISO 3166 of the countries whose numbers may lack the country's code.
    """
    counts: Counter[str] = Counter()
    finders: Mapping[str, Callable[[str], Iterator[Span]]] = {
        "url": _urls,
        "email": _emails,
        "iban": _ibans,
        "card": _cards,
        "ip": _ips,
        "phone": functools.partial(_phones, regions=regions),
    }
    for name, placeholder in PLACEHOLDERS.items():
        spans = sorted(finders[name](text)) if name in names else []
        if spans:
            counts[name] = len(spans)
            text = _replaced(text, spans, placeholder)
    return text, counts


def _replaced(text: str, spans: Sequence[Span], word: str) -> str:
    """Returns a text with some spans, which are in order, replaced by a word."""
    kept, end = [], 0
    for start, behind in spans:
        kept += [text[end:start], word]
        end = behind
    return "".join([*kept, text[end:]])


@functools.cache
def _stdnum() -> ModuleType:
    with needs("--scrub", "python-stdnum", "scrub"):
        import stdnum
        import stdnum.iban
        import stdnum.luhn
    return stdnum


@functools.cache
def _phonenumbers() -> ModuleType:
    with needs("--scrub", "phonenumbers", "scrub"):
        import phonenumbers
    return phonenumbers
