"""Languages with Latin letters: how a text shows its language, and in which encodings it is found.

The language shows in common words of ASCII letters, which are the same bytes in every encoding. It
decides which other letters to expect. Pure.
"""

import dataclasses
import re
from collections import Counter

# The page of Windows for each group of languages comes first (HTML standard, section 13.2.3.2).
# The encodings of ISO, DOS and the Macintosh follow.
_WESTERN = ("cp1252", "iso8859_15", "cp850", "cp437", "mac_roman")
_CENTRAL = ("cp1250", "iso8859_2", "cp852", "mac_latin2")
_TURKISH = ("cp1254", "iso8859_9", "cp857", "mac_turkish")
_BALTIC = ("cp1257", "iso8859_13", "cp775", "mac_latin2")


@dataclasses.dataclass(frozen=True)
class LatinLanguage:
    """A language with Latin letters.

    Attributes:
      code: its code in ISO 639-1.
      encodings: Python's names of the encodings of its files.
      words: common words of ASCII letters.
      letters: its own lower-case letters beyond ASCII.
    """

    code: str
    encodings: tuple[str, ...]
    words: frozenset[str]
    letters: frozenset[str]


def _of(code: str, encodings: tuple[str, ...], words: str, letters: str) -> LatinLanguage:
    return LatinLanguage(code, encodings, frozenset(words.split()), frozenset(letters))


LANGUAGES = (
    _of("en", _WESTERN, "the of and to in is that it for was with his he are this", ""),
    _of("fr", _WESTERN, "le la les de et un une dans que qui est en pas pour du", "àâçèéêëîïôœùûü"),
    _of("de", _WESTERN, "der die das und ist nicht ein eine zu den mit sich von auf es", "äöüß"),
    _of("es", _WESTERN, "el la los las de y que en un una por con se no es del", "áéíñóúü"),
    _of("it", _WESTERN, "il la di che e un una per non in con si del della i gli", "àèéìòù"),
    _of("pt", _WESTERN, "o a os de e que do da em um uma para com se no na", "áâãàçéêíóôõú"),
    _of("ca", _WESTERN, "el la de i que en un una per amb es no del els les", "àçèéíïòóúü·"),
    _of("gl", _WESTERN, "o a de e que do da en un unha para con se no os", "áéíñóúü"),
    _of("la", _WESTERN, "et in est non ad ut cum quod qui sed per ab si quae esse", "æœëï"),
    _of("nl", _WESTERN, "de het een van en in is dat op te niet zijn met voor aan", "ëïéèöü"),
    _of("sv", _WESTERN, "och att det som en av till den med inte var har de om", "åäöé"),
    _of("no", _WESTERN, "og at det som en av til den med ikke var har de om er", "æøåé"),
    _of("fi", _WESTERN, "ja on ei se oli joka mutta ovat kun niin kuin", "äöå"),
    _of("pl", _CENTRAL, "w z na do nie jest to i od po za o jak przez dla", "ąćęłńóśźż"),
    _of("cs", _CENTRAL, "a se na v je to z do o s za i jak pro ale", "áčďéěíňóřšťúůýž"),
    _of("sk", _CENTRAL, "a sa na v je to z do o s za aj ako pre ale", "áäčďéíĺľňóôŕšťúýž"),
    _of("hu", _CENTRAL, "a az hogy nem egy is meg de ez volt el mint csak ki", "áéíóöőúüű"),
    _of("hr", _CENTRAL, "i je u na se da za su od s kao ne koji to", "čćđšž"),
    _of("sl", _CENTRAL, "in je v na se da za so z ki ni pa kot ne", "čšžćđ"),
    _of("ro", _CENTRAL, "de la un o cu nu pe care din mai este sunt s lui a", "ăâîşţ"),
    _of("tr", _TURKISH, "ve bir bu da de ile olarak olan daha en ne gibi", "çğıöşüâîû"),
    _of("lt", _BALTIC, "ir kad su yra tai ne bet per jo kaip buvo", "ąčęėįšųūž"),
    _of("lv", _BALTIC, "un ir ar no par ka lai bet kas uz pie bija", "āčēģīķļņšūž"),
    _of("et", _BALTIC, "ja on ei et ka oli ta kui see aga mis ning", "äõöüšž"),
)
# Fewest common words that show a language, and the share of those of the first that a second one
# must have to be considered, too.
_FEWEST_WORDS = 5
_AS_MANY = 0.5
_WORD = re.compile(rb"(?<![^\W\d_])(?<![\x80-\xff])[a-z]+(?![a-z\x80-\xff])")


def languages_of(raw: bytes) -> list[tuple[LatinLanguage, float]]:
    """Returns the languages whose common words are the most frequent ones in a text.

    Each has the number of its words as a share of that of the first. The result is empty if the
    words show none.
    """
    counts = Counter(word.decode() for word in _WORD.findall(raw.lower()))
    found = [(sum(counts[word] for word in each.words), each) for each in LANGUAGES]
    most = max(count for count, _ in found)
    if most < _FEWEST_WORDS:
        return []
    return [(each, count / most) for count, each in found if count >= _AS_MANY * most]


# Letters of names such as Zoë, Müller and Señor, which occur in texts of any language. A letter of
# the language itself is likelier.
_NAME_LETTERS = frozenset("àáâãäåæçèéêëìíîïñòóôõöøùúûüýœšž")
_LIKE_A_NAME = 0.6
# Signs by their places: anywhere; not between two letters; neither there nor beside other
# characters beyond ASCII; nowhere beside a letter.
_ANYWHERE = frozenset("’–—…·\xad\xa0")
_QUOTES = frozenset("‘“”„‚«»‹›")
_BESIDE_ASCII = frozenset("•§°©®™£€¥¢½¼¾²³¹ªº†‡")
_BEFORE_WORDS = frozenset("¿¡")
_ALONE = frozenset("±×÷µ¶´¬¦")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def expectations(text: str, language: LatinLanguage) -> list[float]:
    """Returns from 0 to 1 how much each character beyond ASCII is expected in a language's text."""
    return [
        _how_expected(match[0], text[match.start() - 1 : match.start()], after, language)
        for match in _BEYOND_ASCII.finditer(text)
        for after in [text[match.end() : match.end() + 1]]
    ]


def _how_expected(character: str, before: str, after: str, language: LatinLanguage) -> float:
    """Returns from 0 to 1 how much a character is expected between its two neighbours."""
    if character in _ANYWHERE:
        return 1.0
    if character in _QUOTES or character in _BESIDE_ASCII and (before + after).isascii():
        return float(not (before.isalpha() and after.isalpha()))
    if character in _ALONE:
        return float(not (before.isalpha() or after.isalpha()))
    if before.isdigit() or after.isdigit():
        return 0.0
    if character in _BEFORE_WORDS:
        return float(not before.isalpha())
    is_capital = character != character.lower()
    in_capitals = before.isupper() and (after.isupper() or not after.isalpha())
    if is_capital and before.isalpha() and not in_capitals:
        return 0.0
    small = "i" if character == "İ" else character.lower()
    if small in language.letters or character == "İ" and "ı" in language.letters:
        return 1.0
    return _LIKE_A_NAME if small in _NAME_LETTERS else 0.0
