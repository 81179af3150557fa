"""Excerpts of texts that are too long for a page."""


def excerpt(text: str, most: int, start: int = 0) -> str:
    """Returns at most some characters of a text, with `…` where words are left out.

    Args:
      text: the text.
      most: greatest number of characters without the marks.
      start: position at or behind which the excerpt begins, if the text is longer than that.
    """
    text = text.strip()
    if len(text) <= most:
        return text
    start = min(start, len(text) - most)
    if start > 0:  # the excerpt begins and ends with a whole word where it can
        space = text.find(" ", start, start + most // 2)
        start = start if space < 0 else space + 1
    end = min(start + most, len(text))
    if end < len(text):
        space = text.rfind(" ", start + most // 2, end + 1)
        end = end if space < 0 else space
    return ("… " if start > 0 else "") + text[start:end] + (" …" if end < len(text) else "")
