"""Replaces personal data, such as addresses of mail and numbers of telephones. Pure.

What is found becomes a word in brackets, `[email]`. Each of these words and both brackets are
tokens of Google's vocabularies, cased and uncased, so that a placeholder is three tokens in all. It
holds nothing that a rule finds.

A rule first looks for what has the right form and then checks what can be checked: the sums of
digits, the numbering plans, the registered lengths. A number that fails the check stays.

No rule finds persons, places and the like; presidio does, with a model of spaCy that must be
installed. presidio-analyzer (MIT) joins the named entities of the model with patterns, sums of
digits and words of context, such as those of social security numbers. Its entities have names in
capitals; here they are in small letters, so that PERSON is `person` and US_SSN is `us_ssn`.
"""

import contextlib
import functools
import hashlib
import ipaddress
import logging
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from beambert.errors import InputError
from beambert.pipelines.text.cleaning import UNSPACED

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine
    from spacy.language import Language

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
# before an address is not a part of it.
_PUNCTUATION = r"\s«»“”\u2000-\u206f\u3000-\u303f\uff00-\uff0f"
_ATOM = rf"[^\x00-\x20\"(),.:;<>@\[\\\]{_PUNCTUATION}{UNSPACED}]"
_LETTER = rf"[^\x00-\x2f:-@\[-`{{-\x7f{_PUNCTUATION}{UNSPACED}]"
_LABEL = rf"(?:{_LETTER}+(?:-+{_LETTER}+)*|[{UNSPACED}]+)"
_EMAIL = re.compile(
    rf'(?:(?<![\w.+-])"(?:[^"\\\n]|\\.){{1,62}}"'
    rf"|(?<!{_ATOM})(?<!{_ATOM}\.){_ATOM}{{1,64}}(?:\.{_ATOM}{{1,64}}){{0,16}}|[{UNSPACED}]{{1,64}})"
    rf"@(?:\[[\w.:-]{{2,64}}\]|{_LABEL}(?:\.{_LABEL}){{1,10}})"
)
# Marks before an address that an address might begin with, but that others put there. Below, the
# greatest length of an address.
_BEFORE_EMAIL = "`'*{|/?&~"
_LONGEST_EMAIL = 320
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
# ISO/IEC 7812-1: 12 to 19 digits, printed in groups. Behind a point, or 0 and a comma, they are
# decimals.
_CARD = re.compile(
    r"\d(?<![\w/-].)(?<!\d\..)(?<!\b0,.)(?:[ -]?\d){11,18}(?![\w/]|[.-]\d)", re.ASCII
)
# Numbers of digits in the groups of a card next to other numbers, such as its date and its code.
_GROUPS = frozenset(((14,), (15,), (16,), (4, 4, 4, 4), (4, 6, 5), (4, 6, 4)))
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
# A date with slashes next to a number keeps the library from finding it.
_DATE = re.compile(r"(?<![\d/])\d{1,2}/\d{1,2}/(?:\d{4}|\d\d)(?![\d/])", re.ASCII)
# Words before numbers that are no telephone's, and no host's: those of catalogues and of parts of
# texts and programs.
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
# Something of a telephone's, in a line of numbers.
_MARKED = re.compile(r"\d[‐-―-]\d|\) ?\d|\+\d")
# A line with more numbers than these, and none of these marks, is of a table.
_MOST_NUMBERS = 16
# Decimals, also several, but for a country's code before a point (RFC 5733, section 2.5); and a
# version, which has a 0 alone between points.
_DECIMALS = re.compile(r"\W?(?:\+\d{4})?\d+\.\d+(?:[ ,]+\d+\.\d+)*\W?|.*\.0\..*", re.ASCII)
# Numbers next to each other, as in tables, and spans of years.
_NO_PHONE = re.compile(r"(?<!\d)\d[^\d()]+\d(?!\d)|\A\W?(?:1\d|20)\d\d\D{1,3}(?:1\d|20)\d\d\Z")
# Number of characters on both sides of these that the library gets, such as "tel." or "ext. 12".
_AROUND = 24
# North America, the default of --phone_regions.
DEFAULT_REGIONS = ("US",)
# The entities of presidio that rules of `scrubbing` find, by the name of the rule.
RULES = {
    "url": "url",
    "email_address": "email",
    "iban_code": "iban",
    "credit_card": "card",
    "ip_address": "ip",
    "phone_number": "phone",
}
# Least score of what is replaced: that which presidio gives a weak pattern next to a word of its
# context (min_score_with_context_similarity of its LemmaContextAwareEnhancer). Names have 0.85.
LEAST_SCORE = 0.4
# Labels of spaCy's models that presidio's own table lacks; they are those of its conf/spacy.yaml.
_MORE_LABELS = {"FAC": "LOCATION", "ORGANIZATION": "ORGANIZATION"}
# Number of characters that are looked at in one go. The memory of a model grows with it.
PIECE_CHARACTERS = 10_000
# Components of which nothing depends that is asked for. They take a quarter of the time.
_NEEDLESS = ("parser", "senter")

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
    match, base = _EMAIL.search(text) if "@" in text else None, 0
    while match:
        name, _, domain = match[0].rpartition("@")
        labels = domain.split(".") if domain[0] != "[" else [domain]
        # No top-level domain has one letter, or begins with a digit (RFC 3696, section 2): it
        # begins the next sentence, or the name is a number, such as 4.5.
        while len(labels) > 1 and (len(labels[-1]) == 1 or labels[-1][0].isdigit()):
            labels.pop()
        first = len(name) - len(name.lstrip(_BEFORE_EMAIL))
        # Marks alone are no name: programs have decorators, such as `@pytest.fixture`.
        if (len(labels) > 1 or domain[0] == "[") and re.search(r"\w", name):
            start = base + match.start()
            yield start + first, start + len(name) + 1 + len(".".join(labels))
        # Another one may follow behind a mark that both might hold, such as that of a list.
        end = base + match.end()
        match, base = _EMAIL.match(text[end : end + _LONGEST_EMAIL]), end
        if not match:
            match, base = _EMAIL.search(text, end), 0


def _ips(text: str) -> Iterator[Span]:
    found = []
    for match in _IPV6.finditer(text) if _IN_IPV6.search(text) else ():
        address = match[0] if match[0].endswith("::") else match[0].rstrip(":")
        # Programs have std::, slices a[::20] and times 1::2; addresses have longer groups.
        is_slice = re.search(r"[\w)\]]\[\Z", text[max(0, match.start() - 2) : match.start()])
        is_long = re.search(r"[0-9A-Fa-f]{3}", address) and re.search(r"\d", address)
        # A number before the two colons of a block of code.
        is_block = re.fullmatch(r"\d+::", address) and text[match.end() : match.end() + 1] != "/"
        if "." in address or is_long and not is_slice and not is_block:
            with contextlib.suppress(ValueError):
                ipaddress.IPv6Address(address)
                found.append((match.start(), match.start() + len(address)))
    yield from found
    for match in _IPV4.finditer(text) if _IN_IPV4.search(text) else ():
        is_part = _PART.search(text[max(0, match.start() - _AROUND) : match.start()])
        if not is_part and not any(start <= match.start() < end for start, end in found):
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
        groups = [found.span() for found in re.finditer(r"\d+", match[0])]
        done = 0
        # The longest run of groups first, from the first one on.
        for first, last in _parts(len(groups)):
            (start, _), (_, end) = groups[first], groups[last]
            is_whole = (first, last) == (0, len(groups) - 1)
            if start >= done and _is_card(match[0][start:end], is_whole):
                yield match.start() + start, match.start() + end
                done = end


def _is_card(number: str, is_whole: bool) -> bool:
    lengths = tuple(map(len, re.split("[ -]", number)))
    # Shorter groups are the numbers of a table.
    if min(lengths[:-1], default=4) < 4 or not is_whole and lengths not in _GROUPS:
        return False
    digits = number.replace(" ", "").replace("-", "")
    return _NETWORK.match(digits) is not None and _stdnum().luhn.is_valid(digits)


def _parts(n: int) -> Iterator[tuple[int, int]]:
    """Yields the first and the last of some of `n` things in a row, the most first."""
    for count in range(n, 0, -1):
        yield from ((first, first + count - 1) for first in range(n - count + 1))


def _phones(text: str, regions: Sequence[str]) -> Iterator[Span]:
    done, line_start, line_end, is_table = 0, 0, -1, False
    for match in _DIGITS.finditer(text):
        start, end = match.span()
        if start > line_end:
            line_start, line_end = text.rfind("\n", 0, start) + 1, text.find("\n", end)
            line_end = len(text) if line_end < 0 else line_end
            is_table = _is_table(text[line_start:line_end])
        if start < done or "+" not in match[0] and _are_beside_each_other(match[0], is_table):
            continue
        before = text[max(line_start, start - _AROUND) : start]
        if match[0].isdigit() and not _is_written_as_telephone(before, match[0]):
            continue
        # A number never goes on in another line.
        first, last = max(done, start - _AROUND, line_start), min(end + _AROUND, line_end)
        around = _DATE.sub(lambda date: "|" * len(date[0]), text[first:last])
        spans = _numbers(around, regions)
        if not spans:
            spans = _numbers_among_others(around, (start - first, end - first), regions)
        for start, end in ((first + start, first + end) for start, end in spans):
            # These words may stand at the end of the line before.
            before = text[max(0, start - _AROUND) : start]
            is_whole = not re.search(r"\d[eE]?\Z", before) and not text[end : end + 1].isdigit()
            if is_whole and _is_written_as_telephone(before, text[start:end]):
                yield start, end
            done = end


def _is_table(line: str) -> bool:
    """Returns whether a line has many numbers, and more digits than letters."""
    numbers = re.findall(r"\d+", line)
    many = len(numbers) > _MOST_NUMBERS
    return many and sum(map(len, numbers)) > sum(map(str.isalpha, line))


def _are_beside_each_other(numbers: str, is_table: bool) -> bool:
    """Returns whether digits without "+" are certainly several numbers."""
    return is_table and not _MARKED.search(numbers) or _NO_PHONE.search(numbers) is not None


def _numbers(text: str, regions: Sequence[str], is_strict: bool = False) -> list[Span]:
    """Returns the spans of telephone numbers in a text, which may be those of several regions.

    Args:
      text: some words of a line.
      regions: countries whose numbers may lack the country's code, the first one first.
      is_strict: whether the groups of digits must be those of the country.
    """
    library, found = _phonenumbers(), []
    leniency = library.Leniency.STRICT_GROUPING if is_strict else library.Leniency.VALID
    for region in regions:
        for at in library.PhoneNumberMatcher(text, region, leniency):
            start = at.start + _has_unclosed_bracket(at.raw_string)
            if all(at.end <= before or behind <= start for before, behind in found):
                found.append((start, at.end))
    return sorted(found)


def _numbers_among_others(text: str, run: Span, regions: Sequence[str]) -> list[Span]:
    """Returns the spans of telephone numbers that only spaces separate from other numbers.

    Args:
      text: some words of a line.
      run: span of all these numbers.
      regions: see `_numbers`.
    """
    pieces = [
        (run[0] + at.start(), run[0] + at.end()) for at in re.finditer(r"[^ |]+", text[slice(*run)])
    ]
    found: list[Span] = []
    for first, last in _parts(len(pieces)):
        if last - first == len(pieces) - 1:
            continue  # All of them together are no number.
        start, end = pieces[first][0], pieces[last][1]
        is_free = all(end <= before or behind <= start for before, behind in found)
        # The greatest number of digits is that of ITU-T E.164.
        if is_free and 7 <= sum(map(str.isdigit, text[start:end])) <= 15:
            inner = _numbers(text[start:end], regions, is_strict=True)
            found += [(start + before, start + behind) for before, behind in inner]
    return sorted(found)


def _is_written_as_telephone(before: str, number: str) -> bool:
    """Returns whether a number has a sign of being a telephone's, and none of another kind."""
    if _CATALOGUE.search(before):
        return False
    has_sign = number[0] in "+0" or re.search(r"\d\D+\d", number) is not None
    has_sign = has_sign and not _DECIMALS.fullmatch(number)
    return has_sign or _TELEPHONE.search(before) is not None


def _has_unclosed_bracket(number: str) -> bool:
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
# A recognizer leaves these as they are. Below, the greatest length of one.
_STAYS = re.compile("|".join(map(re.escape, ["\n", *PLACEHOLDERS.values()])))
_LONGEST = max(map(len, PLACEHOLDERS.values()))


def check_scrubbing(names: Sequence[str], regions: Sequence[str], model: str = "") -> None:
    """Checks the values of --scrub, --phone_regions and --scrub_model.

    Args:
      names, regions, model: see `scrub`.

    Raises:
      InputError: a name, a region or a model is unknown, or a package is missing.
    """
    recognized = [name for name in names if name not in PLACEHOLDERS]
    if recognized and not model:
        raise InputError(
            f"--scrub={recognized[0]}: must be among {','.join(sorted(PLACEHOLDERS))}; for others, "
            "such as person and location, name a model of spaCy with --scrub_model"
        )
    if model and not recognized:
        raise InputError(
            f"--scrub_model={model}: has no effect without a name such as person in --scrub; add "
            "one, or leave it out"
        )
    if model:
        check_recognition(recognized, model)
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


def scrub(
    text: str, names: Sequence[str], regions: Sequence[str], model: str = ""
) -> tuple[str, Mapping[str, int]]:
    """Returns a text with placeholders, and the number of each by name.

    Args:
      text: a document; what is replaced stands in one line.
      names: what to replace, keys of `PLACEHOLDERS`; with a model, also what it and presidio find.
      regions: codes of ISO 3166 of the countries whose numbers may lack the country's code.
      model: model of spaCy, see `check_recognition`; "" for none.
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
            text = _replaced(text, [(span, placeholder) for span in spans])
    if model:
        found = recognize(text, [name for name in names if name not in PLACEHOLDERS], model)
        found = [(part, name) for span, name in found for part in _without_placeholders(text, span)]
        counts.update(name for _, name in found)
        text = _replaced(text, [(span, f"[{name.replace('_', ' ')}]") for span, name in found])
    return text, counts


def _replaced(text: str, found: Sequence[tuple[Span, str]]) -> str:
    """Returns a text with some spans, which are in order, replaced by words."""
    kept, end = [], 0
    for (start, behind), word in found:
        kept += [text[end:start], word]
        end = behind
    return "".join([*kept, text[end:]])


def _without_placeholders(text: str, span: Span) -> Iterator[Span]:
    """Yields the parts of a span outside of placeholders, each in a line, that have a letter."""
    start, end = span
    around = _STAYS.finditer(text, max(0, start - _LONGEST), end + _LONGEST)
    for before, behind in [*(at.span() for at in around), (end, end)]:
        part = text[start : min(before, end)]
        if any(map(str.isalnum, part)):
            yield start + len(part) - len(part.lstrip()), start + len(part.rstrip())
        start = max(start, behind)


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


def check_recognition(names: Sequence[str], model: str) -> None:
    """Checks that a model can be used and finds some names.

    Args:
      names: names of presidio's entities, in small letters.
      model: name of an installed package with a model of spaCy, or path of the folder of one.

    Raises:
      InputError: there is one, or a package is missing.
    """
    for name in names:
        if name in RULES:
            raise InputError(f"--scrub={name}: is found by a rule; write {RULES[name]}")
    engine, language = _engine(model)
    known = sorted(
        {entity.lower() for entity in engine.get_supported_entities(language)} - {*RULES}
    )
    for name in names:
        if name not in known:
            raise InputError(
                f"--scrub={name}: neither a rule nor --scrub_model={model} finds it; this model "
                f"and presidio have {', '.join(known)}"
            )


def describe_model(model: str) -> dict[str, str]:
    """Returns name, version and SHA-256 of a model, which `check_recognition` takes.

    The checksum is that of the names and contents of all its files.
    """
    language = _language(model)
    checksum = hashlib.sha256()
    for path in sorted(language.path.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            checksum.update(f"{path.relative_to(language.path)} {content}\n".encode())
    meta = language.meta
    return {
        "name": f"{meta['lang']}_{meta['name']}",
        "version": meta["version"],
        "sha256": checksum.hexdigest(),
    }


def recognize(text: str, names: Sequence[str], model: str) -> list[tuple[Span, str]]:
    """Returns the spans of what is found in a text, with their names, in order.

    Spans that overlap become one, of the name with the greatest score, so that nothing that was
    found stays.

    Args:
      text: a document.
      names, model: what `check_recognition` takes.
    """
    engine, language = _engine(model)
    entities = [name.upper() for name in names]
    found: list[tuple[Span, str]] = []
    for start, end in pieces(text):
        results = engine.analyze(
            text[start:end], language, entities=entities, score_threshold=LEAST_SCORE
        )
        of_piece = [
            ((result.start, result.end), result.score, result.entity_type.lower())
            for result in results
        ]
        found += [((start + a, start + b), name) for (a, b), name in joined(of_piece)]
    return found


def joined(found: Sequence[tuple[Span, float, str]]) -> list[tuple[Span, str]]:
    """Returns spans that don't overlap, made of spans with scores and names that may.

    Args:
      found: span, score and name of each.
    """
    groups: list[list[tuple[Span, float, str]]] = []
    end = -1
    for one in sorted(found):
        if one[0][0] >= end:
            groups.append([])
        groups[-1].append(one)
        end = max(end, one[0][1])
    result = []
    for group in groups:
        span = group[0][0][0], max(each[0][1] for each in group)
        best = max(group, key=lambda each: (each[1], each[0][1] - each[0][0], each[2]))
        result.append((span, best[2]))
    return result


def pieces(text: str, most: int = PIECE_CHARACTERS) -> Iterator[Span]:
    """Yields the spans of the parts of a text: whole lines, or whole words of a long line.

    Args:
      text: a document.
      most: greatest number of characters of a part.
    """
    start = 0
    while len(text) - start > most:
        window = text[start : start + most]
        cut = max(window.rfind("\n"), 0) or max(window.rfind(" "), 0) or most
        yield start, start + cut
        start += cut
    if start < len(text):
        yield start, len(text)


def resolved(model: str) -> str:
    """Returns the absolute path of a model's folder, for workers; a package's name as it is."""
    path = pathlib.Path(model)
    return str(path.resolve()) if model and path.is_dir() else model


@functools.cache
def _language(model: str) -> "Language":
    """Returns a model of spaCy, with the components that are needed.

    Raises:
      InputError: it is not there, cannot be loaded, or finds no names; or a package is missing.
    """
    try:
        import spacy
    except ImportError as error:
        raise _missing_presidio() from error
    is_folder = pathlib.Path(model).is_dir()
    if not is_folder and not spacy.util.is_package(model):
        raise InputError(
            f"--scrub_model={model}: no model of spaCy is installed under that name, nor is "
            "there such a folder; install one, as with `python -m spacy download en_core_web_sm`"
        )
    try:
        return spacy.load(pathlib.Path(model) if is_folder else model, exclude=_NEEDLESS)
    except Exception as error:  # whatever the model's own code raises
        raise InputError(
            f"--scrub_model={model}: cannot be loaded by spaCy {spacy.__version__} ({error}); "
            "take a model of that version"
        ) from error


@functools.cache
def _engine(model: str) -> tuple["AnalyzerEngine", str]:
    """Returns presidio's engine on a model, and the code of the model's language.

    Raises:
      InputError: see `_language`; or the model finds no names.
    """
    nlp = _language(model)
    try:
        from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
        from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine
    except ImportError as error:
        raise _missing_presidio() from error
    # It reports at length which recognizers other languages would have.
    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)
    labels = {
        label
        for component in nlp.pipe_names
        if "doc.ents" in nlp.get_pipe_meta(component).assigns
        for label in nlp.pipe_labels.get(component, ())
    }
    usual: Mapping[str, Any] = NerModelConfiguration().model_to_presidio_entity_mapping
    entities = {name: each for name, each in {**usual, **_MORE_LABELS}.items() if name in labels}
    if not entities:
        raise InputError(
            f"--scrub_model={model}: finds no names of persons or places; take a model with a "
            "component such as ner"
        )
    configuration = NerModelConfiguration(
        model_to_presidio_entity_mapping=entities, labels_to_ignore=sorted(labels - {*entities})
    )
    # Given a name alone, the engine would fetch the model.
    engine = SpacyNlpEngine([{"lang_code": nlp.lang, "model_name": model}], configuration)
    engine.nlp = {nlp.lang: nlp}
    registry = RecognizerRegistry(supported_languages=[nlp.lang])
    registry.load_predefined_recognizers(languages=[nlp.lang], nlp_engine=engine)
    analyzer = AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=[nlp.lang])
    return analyzer, nlp.lang


def _missing_presidio() -> InputError:
    return InputError(
        "--scrub_model: needs the package presidio-analyzer; install it with "
        "`pip install 'beambert[recognizer]'`, also for workers elsewhere"
    )
