"""Replaces what tells of persons, such as addresses of mail and numbers of telephones. Pure.

What is found becomes a word in brackets, `[email]`. Each of these words and both brackets are
tokens of Google's vocabularies, cased and uncased, so that a placeholder is three tokens in all. It
holds nothing that a rule finds.

A rule first looks for what has the right form and then checks what can be checked: the sums of
digits, the numbering plans, the registered lengths. A number that fails the check stays.
"""

import contextlib
import functools
import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.text.cleaning import UNSPACED

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
# RFC 5321, section 4.1.2 with RFC 5322, section 3.2.3: a dot-string or a quoted string, then a
# domain or an address literal. The lengths are those of RFC 5321, section 4.5.3.1. Letters may be
# of any script (RFC 6531), but scripts without spaces and others never mix: what stands there
# before an address is no part of it.
_PUNCTUATION = r"\s«»“”\u2000-\u206f\u3000-\u303f\uff00-\uff0f"
_ATOM = rf"[^\x00-\x20\"(),.:;<>@\[\\\]{_PUNCTUATION}{UNSPACED}]"
_LETTER = rf"[^\x00-\x2f:-@\[-`{{-\x7f{_PUNCTUATION}{UNSPACED}]"
_LABEL = rf"(?:{_LETTER}+(?:-+{_LETTER}+)*|[{UNSPACED}]+)"
_EMAIL = re.compile(
    rf'(?:(?<![\w.+-])"(?:[^"\\\n]|\\.){{1,62}}"'
    rf"|(?<!{_ATOM})(?<!{_ATOM}\.){_ATOM}{{1,64}}(?:\.{_ATOM}{{1,64}}){{0,16}}|[{UNSPACED}]{{1,64}})"
    rf"@(?:\[[\w.:-]{{2,64}}\]|(?![\d.]+(?![\w-])){_LABEL}(?:\.{_LABEL}){{1,10}})"
)
# RFC 3986, section 3.2.2, IPv4address.
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = re.compile(rf"(?<![\w.])(?:{_OCTET}\.){{3}}{_OCTET}(?!\w|\.\d)", re.ASCII)
# Such addresses contain these, which take less time to look for.
_IN_IPV4, _IN_IPV6 = re.compile(r"\.\d{1,3}\.\d"), re.compile(r":[0-9A-Fa-f]{0,4}:")
# RFC 4291, section 2.2: groups of hexadecimal digits; the library judges the rest.
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f]*:)[0-9A-Fa-f:]{2,39}(?:\.\d{1,3}){0,3}(?![\w:])")
# ISO 13616-1: country, two check digits, up to 30 letters and digits, printed in groups of four.
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}(?![A-Za-z0-9])")
_IN_IBAN = re.compile(r"\d\d(?<=[A-Z]{2}..)")
# ISO/IEC 7812-1: 12 to 19 digits, printed in groups.
_CARD = re.compile(r"\d(?<![\w.,/-].)(?:[ -]?\d){11,18}(?![\w/]|[.,-]\d)", re.ASCII)
# The first digits that the payment networks have, from their own pages as Wikipedia lists them
# ("Payment card number"): American Express, Diners Club, JCB, Visa, Mastercard, UnionPay, Discover,
# Maestro, Mir.
_NETWORK = re.compile(
    r"3[47]|3(?:0[0-5]|095|[689])|35(?:2[89]|[3-8])|4|5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|62"
    r"|6011|64[4-9]|65|81|50|5[6-9]|6[0-9]|220[0-4]"
)
# Seven digits or more (ITU-T E.164 has at most fifteen) with what may stand among them.
_AMONG = r"[ ()\[\]./~‐-―−-]{0,4}"
_DIGITS = re.compile(rf"[+(\[\d](?<!\w.){_AMONG}(?:\d{_AMONG}){{5,18}}\d", re.ASCII)
# Numbers beside each other, as in tables, and spans of years.
_NO_PHONE = re.compile(r"(?<!\d)\d[^\d()]+\d(?!\d)|\A\W?(?:1\d|20)\d\d\D{1,3}(?:1\d|20)\d\d\Z")
# Number of characters on both sides of these that the library gets, such as "tel." or "ext. 12".
_AROUND = 24
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
    if "@" in text:
        yield from (match.span() for match in _EMAIL.finditer(text))


def _ips(text: str) -> Iterator[Span]:
    found = []
    for match in _IPV6.finditer(text) if _IN_IPV6.search(text) else ():
        address = match[0] if match[0].endswith("::") else match[0].rstrip(":")
        # Programs have std::, slices [::2] and times 1::2; addresses have longer groups.
        if "." in address or re.search(r"[0-9A-Fa-f]{3}", address) and re.search(r"\d", address):
            with contextlib.suppress(ValueError):
                ipaddress.IPv6Address(address)
                found.append((match.start(), match.start() + len(address)))
    yield from found
    for match in _IPV4.finditer(text) if _IN_IPV4.search(text) else ():
        if not any(start <= match.start() < end for start, end in found):
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
    luhn = _stdnum().luhn
    for match in _CARD.finditer(text):
        groups = re.split("[ -]", match[0])
        digits = "".join(groups)
        # Shorter groups are the numbers of a table.
        if min(map(len, groups[:-1]), default=4) < 4:
            continue
        if _NETWORK.match(digits) and luhn.is_valid(digits):
            yield match.span()


def _phones(text: str, regions: Sequence[str]) -> Iterator[Span]:
    phonenumbers = _phonenumbers()
    done = 0
    for match in _DIGITS.finditer(text):
        is_national = "+" not in text[match.start() : match.end()]
        if match.start() < done or (is_national and _NO_PHONE.search(match[0])):
            continue
        # A number never goes on in another line.
        first = max(done, match.start() - _AROUND, text.rfind("\n", done, match.start()) + 1)
        line_end = text.find("\n", match.end())
        last = min(match.end() + _AROUND, len(text) if line_end < 0 else line_end)
        around = text[first:last]
        for region in regions:
            matches = phonenumbers.PhoneNumberMatcher(around, region)
            spans = [(at.start + _opens_in_vain(at.raw_string), at.end) for at in matches]
            if spans:
                yield from ((first + start, first + end) for start, end in spans)
                done = first + spans[-1][1]
                break


def _opens_in_vain(number: str) -> bool:
    """Returns whether a number begins with a bracket that is closed behind it.

    The library takes such a bracket along.
    """
    pair = {"(": ")", "[": "]"}.get(number[0])
    return pair is not None and number.count(number[0]) > number.count(pair)


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
    """Refuses what nothing is known of; nothing to replace needs no package.

    Raises:
      InputError: a name or a region is unknown, or a package is missing.
    """
    for name in names:
        if name not in PLACEHOLDERS:
            raise InputError(f"--scrub={name}: must be among {','.join(sorted(PLACEHOLDERS))}")
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
                f"--phone_regions={region}: is no region with a numbering plan; name regions by "
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
            edges = [0, *(edge for span in spans for edge in span), len(text)]
            kept = (text[edges[i] : edges[i + 1]] for i in range(0, len(edges), 2))
            text = placeholder.join(kept)
    return text, counts


@functools.cache
def _stdnum() -> ModuleType:
    try:
        import stdnum
        import stdnum.iban
        import stdnum.luhn
    except ImportError as error:
        raise _missing("python-stdnum") from error
    return stdnum


@functools.cache
def _phonenumbers() -> ModuleType:
    try:
        import phonenumbers
    except ImportError as error:
        raise _missing("phonenumbers") from error
    return phonenumbers


def _missing(package: str) -> InputError:
    return InputError(
        f"--scrub: needs the package {package}; install it with `pip install 'beambert[scrub]'`, "
        "also for workers elsewhere"
    )
