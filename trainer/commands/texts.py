"""The texts that are asked about, and the file and the progress of their answers."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beambert import io
from beambert.console import SECONDS_BETWEEN_LINES, Pace, ProgressLine, duration
from beambert.errors import InputError
from beambert.trainer.asking import Report


def given_texts(texts: Sequence[str], path: str | None) -> list[str]:
    """Returns the texts of the command line, or the lines of a file that aren't blank.

    Raises:
      InputError: there are both or neither, a text is blank, or the file cannot be read.
    """
    for text in texts:
        if not text.strip():
            raise InputError(f"{text!r}: is blank; write a text or leave it out")
    if bool(texts) == bool(path):
        raise InputError(
            "--input: is needed without a TEXT, and only then; write a TEXT or name a file of texts"
        )
    if path:
        # Editors on Windows put a byte order mark before UTF-8.
        content = io.read_text(path, "--input").removeprefix("\ufeff")
        texts = [line.strip() for line in content.split("\n") if line.strip()]
        if not texts:
            raise InputError(f"--input={path}: is empty; put a text on each line")
    return list(texts)


def check_output(path: str | None) -> None:
    """Refuses a file of answers that exists, before they are computed.

    Raises:
      InputError: it exists.
    """
    if path:
        io.check_new(path)


def write_lines(path: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes a new file with one JSON object a line.

    Raises:
      InputError: the file exists or cannot be written.
    """
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    io.check_new(path)
    io.write_bytes(path, lines.encode())


def show_progress(things: str) -> Report:
    """Returns a function that prints a line about what is done, every few seconds."""
    pace, line = Pace(), ProgressLine()
    next_line = time.monotonic() + SECONDS_BETWEEN_LINES

    def show(done: int, total: int) -> None:
        nonlocal next_line
        now = time.monotonic()
        rate = pace.of(done, now)
        if now >= next_line and rate:
            next_line = now + SECONDS_BETWEEN_LINES
            left = duration((total - done) / rate)
            line.show(f"{done:,} of {total:,} {things}, {rate:,.0f}/s, {left} left")

    return show
