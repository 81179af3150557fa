"""Texts after one rule of scrubbing."""

from beambert.pipelines.text.scrubbing import PLACEHOLDERS, scrub

US = ("US",)


def replaced(name: str, text: str, regions=US) -> str:
    """The text with what a rule of this name replaces."""
    return scrub(text, [name], regions)[0]


def missed(name: str, examples, regions=US) -> list[str]:
    """The examples that a rule doesn't replace as a whole, in a sentence and in brackets."""
    wrong = []
    for example in examples:
        for text in (f"Take {example}, please.", f"({example})", f"It is\n{example}.\nSo"):
            if replaced(name, text, regions) != text.replace(example, PLACEHOLDERS[name]):
                wrong.append(example)
    return wrong
