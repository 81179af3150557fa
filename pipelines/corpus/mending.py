"""Removes the brackets, commas and spaces around pieces that were cut out of a text. Pure.

Each pattern matches from the start of a run of such characters, so that the time grows only
linearly with the length of the run.
"""

import re

# Mark of a piece that was cut out. The tokenizer drops this character from text.
GAP = "\x01"


def mend(text: str) -> str:
    """Returns a text without its gaps and without what they leave around themselves."""
    if GAP not in text:
        return text
    text = re.sub(rf"\([\s;,{GAP}]*\)", GAP, text)
    text = re.sub(rf"\([\s;,:]*{GAP}[\s;,:{GAP}]*", "(", text)
    text = re.sub(rf"(?<![\s;,:{GAP}])[\s;,:{GAP}]*{GAP}[\s;,:]*\)", ")", text)
    text = re.sub(rf"([,;])(?:[ \xa0]*{GAP}[ \xa0{GAP}]*[,;])+", r"\1", text)
    before = rf"(?<![ \xa0{GAP}])({GAP}*)"
    text = re.sub(rf"{before}[ \xa0]+{GAP}[ \xa0{GAP}]*(?=[,.;:])", r"\1", text)
    text = re.sub(rf"^[ {GAP}]*{GAP}[ ]*[,.;:]", "", text, flags=re.MULTILINE)
    return text.replace(GAP, "")
