"""What common templates of wikis show in prose. Pure.

The text of a template is on another page of the wiki, which a dump of articles does not have. The
names here are those of the English, German, French, Spanish, Italian, Portuguese and Russian
Wikipedia that stand in sentences most often. Dumps of rendered text need none of this.
"""

import re
from collections.abc import Callable, Mapping, Sequence

# Positional parameters of a template, without markup; its named ones; and what it shows, or
# None if that is not known.
Positional, Named = Sequence[str], Mapping[str, str]
Shown = Callable[[Positional, Named], str | None]

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
# Names that are what the template shows.
_SHOWN_NAME = re.compile(r"[ivxl]+er? siècle\b.*|1er \w+")
# Words between two numbers of {{convert}}.
_RANGES = {
    **{word: f" {word} " for word in ("to", "and", "by", "or", "to about")},
    **{"-": "–", "–": "–", "x": " × ", "×": " × ", "xx": " × ", "*": " × ", "+/-": " ± "},
}

_UNITS = {
    **{"C": "°C", "F": "°F", "km2": "km²", "m2": "m²", "m3": "m³"},
    **{"sqmi": "sq mi", "oilbbl": "barrels"},
}
# The beginnings of units that stand for a number: "e6acre".
_POWERS = {"e3": "thousand ", "e6": "million ", "e9": "billion "}


def _parameter(number: int) -> Shown:
    """Shows a positional parameter, counted from 1, or the last one if there are fewer."""
    return lambda given, named: given[min(number, len(given)) - 1] if given else ""


def _joined(separator: str, prefix: str = "") -> Shown:
    """Shows all positional parameters."""
    return lambda given, named: prefix + separator.join(filter(None, given))


def _text(text: str) -> Shown:
    return lambda given, named: text


def _convert(given: Positional, named: Named) -> str:
    """{{convert|1300|m|ft}}, {{convert|10|to|20|km}}, {{convert|1|x|2|x|3|m}}."""
    count = 1
    while len(given) > count + 2 and given[count] in _RANGES:
        count += 2
    quantity = "".join(_RANGES.get(part, part) for part in given[:count])
    unit = given[count] if len(given) > count else ""
    power = _POWERS.get(unit[:2], "")
    unit = unit[2:] if power else unit
    return f"{quantity} {power}{_UNITS.get(unit, unit)}".strip()


def _value(given: Positional, named: Named) -> str:
    """{{val|3.5|e=6|u=kg}}."""
    power = f"×10{named['e']}" if named.get("e") else ""
    return _quantity([f"{given[0] if given else ''}{power}"], named)


def _quantity(given: Positional, named: Named) -> str:
    """{{unité|1300|m}}, {{M|1300|u=m}}."""
    return " ".join(filter(None, [*given, named.get("u") or named.get("ul")]))


def _century(given: Positional, named: Named) -> str:
    """{{s-|XIX|e}} of the French Wikipedia; {{s|1300 м}} of the Russian one."""
    text = "".join(given)
    return f"{text} siècle" if re.fullmatch("[IVXL]+er?", text) else text


def _date(given: Positional, named: Named) -> str | None:
    """{{birth date|1900|5|6}}; {{date|4|mai|1820}} has the month in words.

    {{дата|4|5|1820}} shows that of another language.
    """
    if not all(part.isdecimal() for part in given[:3]):
        return " ".join(filter(None, given[:3]))
    numbers = [int(part) for part in given[:3]]
    if len(numbers) > 2 and max(numbers[1:]) > 31:
        return None
    if len(numbers) < 2 or not 1 <= numbers[1] <= 12:
        return given[0] if given else ""
    month = _MONTHS[numbers[1] - 1]
    return f"{month} {numbers[2]}, {numbers[0]}" if len(numbers) > 2 else f"{month} {numbers[0]}"


def _fraction(given: Positional, named: Named) -> str:
    """{{frac|1|2}}, {{frac|36|1|4}}."""
    *whole, over, under = given if len(given) > 1 else ["1", *given, ""][:2]
    return " ".join([*whole, f"{over}/{under}"])


def _nihongo(given: Positional, named: Named) -> str:
    """{{nihongo|English|kanji|romaji}}."""
    details = ", ".join(filter(None, given[1:3]))
    return (
        f"{given[0] if given else ''} ({details})".strip()
        if details
        else _parameter(1)(given, named)
    )


def _as_of(given: Positional, named: Named) -> str:
    """{{as of|2014|5|lc=y}}."""
    return f"{'as' if named.get('lc') else 'As'} of {_date(given, named)}"


# Name in lower case, with spaces -> what it shows.
_TEMPLATES: dict[str, Shown] = {
    # Text as it is given.
    **dict.fromkeys(
        (
            "nowrap", "nobr", "nobreak", "small", "smaller", "big", "large", "em", "strong",
            "abbr", "tooltip", "quote", "blockquote", "bquote", "cquote", "zitat", "cita",
            "citation bloc", "q", "not a typo", "sic", "vanchor", "visible anchor",
            "nts", "number", "formatnum", "fmn", "число", "מספר", "mvar", "math",
            "polytonic", "polytonisch", "unicode", "key", "keypress", "flag",
            "flagcountry", "ill", "iw", "sc", "smallcaps", "angbr", "longitem", "vr", "nq", "w",
            "gloss", "er", "re", "lien",
            "abréviation", "railgauge", "track gauge", "référence nécessaire", "liczba",
            "esd", "仮リンク", "citation",
        ),
        _parameter(1),
    ),
    **dict.fromkeys(("lang", "llang", "rtl-lang", "link-interwiki", "ill-wd"), _parameter(2)),
    **dict.fromkeys(("transl", "transliteration", "tsl"), _parameter(3)),
    "nihongo": _nihongo,
    # Numbers with their units.
    **dict.fromkeys(("convert", "cvt", "convertir", "converti", "تحويل"), _convert),
    **dict.fromkeys(
        ("unité", "nombre", "unidad", "unit", "m", "unità", "num", "fmtn", "단위"), _quantity
    ),
    "höhe": lambda given, named: f"{given[0] if given else ''} m".strip(),
    "val": _value,
    "e": lambda given, named: f"×10{given[0]}" if given else "e",
    **dict.fromkeys(("frac", "fraction", "sfrac"), _fraction),
    **dict.fromkeys(("s", "s-", "sp", "sp-", "siècle"), _century),
    **dict.fromkeys(("chem", "sup", "sub", "ier"), _joined("")),
    "us$": _joined("", "US$"),
    "inr": _joined("", "₹"),
    **{sign: _joined("", sign) for sign in ("€", "£", "¥", "$")},
    # Dates.
    **dict.fromkeys(
        (
            "date", "dts", "start date", "end date", "birth date", "birth date and age",
            "death date", "date-", "fecha", "дата", "data", "datumzelle", "dtlink",
        ),
        _date,
    ),
    **dict.fromkeys(("circa", "c.", "ca.", "vers"), _joined("–", "c. ")),
    "as of": _as_of,
    "r": _text(""),
    "siglo": lambda given, named: f"siglo {given[0] if given else ''}".strip(),
    "séc": _joined(" ", "século "),
    "sec": lambda given, named: f"{given[0] if given else ''} secolo".strip(),
    "1er": _joined(" ", "1er "),
    "guil": lambda given, named: f"« {given[0] if given else ''} »",
    "読み仮名": lambda given, named: "（".join(given[:2]) + "）" * (len(given) > 1),
    **{
        unit: lambda given, named, unit=unit: " ".join([*given[:1], unit])
        for unit in ("км", "км²", "м²", "га")
    },
    # Ships.
    **{
        ship: _joined(" ", f"{ship.upper()} ")
        for ship in ("hms", "ss", "rms", "mv", "hmas", "hmcs", "sms")
    },
    "uss": lambda given, named: f"USS {given[0] if given else ''}",
    # Signs.
    **dict.fromkeys(("nbsp", "spaces", "space", "thinsp", "hair space", "clear space"), _text(" ")),
    **dict.fromkeys(("snd", "spnd", "spaced ndash", "dash", "–"), _text(" – ")),
    **dict.fromkeys(("ndash", "en dash"), _text("–")),
    **dict.fromkeys(("mdash", "em dash", "—"), _text("—")),
    **dict.fromkeys(("·", "•", "dot", "bullet", "middot"), _text(" · ")),
    "'": _text("'"),
    "\"'": _text("\"'"),
    "'\"": _text("'\""),
    '"': lambda given, named: f"„{given[0] if given else ''}“",
    "'s": _text("'s"),
    "!": _text("|"),
    "=": _text("="),
}  # fmt: skip
# Beginnings of the names of templates that stand in brackets or above the line: pronunciations,
# notes, pictures. A sentence is whole without them.
_NOTES = re.compile(
    r"(?:(?:ipa|sfn|efn|ref|réf|harv|cite|flagicon|coord|infobox|usurped|according|citation)\w*"
    r"|respell|audio|listen|rp|note|cn|fact|fn|clarify|who|when|which|where|by whom|dubious|verify"
    r"|better source|page needed|failed verification|legend|anchor|update|vague|quelle|belege"
    r"|cita requerida|sic|dead link|webarchive|zh|lang|ja|pronunciation|full citation|specify"
    r"|importance|weasel|peacock|explain|clear|short description|use|italic title|toc|main"
    r"|see also|further|нет аи|odn|przypis|要出典|要検証|誰|senza fonte|cần chú thích|carece de"
    r" fontes)(?!\w)"
)


def template(name: str) -> Shown | None:
    """Returns how a template shows its parameters; None if that is not known.

    It shows nothing where a sentence is whole without it.

    Args:
      name: name of the template, or of a function of the parser, "formatnum:18".
    """
    written = " ".join(name.replace("_", " ").split())
    name, colon, first = written.lower().partition(":")
    how = _TEMPLATES.get(name)
    if name.startswith(("lang-", "langue-")):
        how = _parameter(1)
    elif _SHOWN_NAME.fullmatch(name):
        how = _text(written)
    elif not how and _NOTES.match(name):
        how = _text("")
    if how and colon:
        return lambda given, named: how([first.strip(), *given], named)
    return how
