"""What ends a sentence in some languages, besides what the splitter knows. Pure.

Each rule was found where the splitter, sentencex, differs from sentences that people set apart
(treebanks of Universal Dependencies), or from the grammar of the script. docs/languages.md has the
figures. English has no rule here.
"""

import re
from collections.abc import Mapping

# Marks that end a sentence of Chinese and Japanese, and what may close a quotation behind them.
_END = "。！？｡"
_CLOSING = "”’」』）》"
# A letter that ends no sentence, and a mark that always ends one.
_LETTER, _STOP = "字", "。"
# No sentence begins with a small letter: "и др. литературу" goes on.
_CYRILLIC = (re.compile(r"\.(?=,| [а-яёіїєґўјљњћђџ])"), ",")
# Language -> characters that the splitter mistakes, as regular expressions, and a character that it
# takes rightly. Text and stand-in have the same length.
_STAND_INS: Mapping[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    # The splitter ends no sentence before a digit: "…结束。2009年…" is one to it.
    "zh": ((re.compile(rf"(?<=[{_END}])[0-9０-９]|(?<=[{_END}][{_CLOSING}])[0-9０-９]"), _LETTER),),
    # A quotation is a part of its sentence where と or って follows.
    "ja": (
        (re.compile(rf"(?<=[{_END}])[0-9０-９]|(?<=[{_END}][{_CLOSING}])[0-9０-９]"), _LETTER),
        (re.compile(rf"[{_END}](?=[」』](?:と|って|、))"), _LETTER),
    ),
    # ASCII quotation marks stand for gershayim inside of words: או"ם is the United Nations.
    "he": ((re.compile(r"(?<=[א-ת])\"(?=[א-ת])"), "״"), (re.compile(r"(?<=[א-ת])'(?=[א-ת])"), "׳")),
    # A single letter is an abbreviation: د. is "Dr", ص. is "page".
    "ar": ((re.compile(r"(?<=\b[\u0621-\u064a])\.(?=\s?\w)"), "،"),),
    # "Dr", "Prof", "Pandit", "the late", "rupees", and the parts of "BC".
    "hi": ((re.compile(r"(?:(?<=\bडॉ)|(?<=\bप्रो)|(?<=\bपं)|(?<=\bस्व)|(?<=\bरु)|(?<=\bई))\."), ","),),
    **dict.fromkeys(("ru", "uk", "be", "bg", "sr", "mk"), (_CYRILLIC,)),
    # The khan ends a sentence, the bariyoosan a text.
    "km": ((re.compile("[។៕]"), _STOP),),
}
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


def stand_in(text: str, language: str) -> str:
    """Returns a text of the same length, whose sentences the splitter ends where `text` has them.

    Args:
      text: paragraphs.
      language: code of ISO 639-1.
    """
    for pattern, character in _STAND_INS.get(language, ()):
        text = pattern.sub(character, text)
    return text


def split_clauses(sentence: str, language: str) -> list[str]:
    """Returns a sentence, or in Thai its parts between spaces that may end a sentence.

    A part has `SHORTEST_THAI` characters or more, except for the last one.
    """
    if language != "th":
        return [sentence]
    start, parts = 0, []
    for space in _THAI_SPACE.finditer(sentence):
        if space.start() - start >= SHORTEST_THAI:
            parts.append(sentence[start : space.start()])
            start = space.end()
    return [*parts, sentence[start:]]
