"""The texts that are asked about, and the file of their answers."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beambert import io
from beambert.config import setting
from beambert.console import json_line
from beambert.errors import InputError
from beambert.trainer.loop.config import EngineSettings
from beambert.trainer.loop.engine import choose_engine
from beambert.trainer.weights.given_path import check_weights


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asking(EngineSettings):
    """The encoder that is asked, the texts, and where the answers go."""

    texts: tuple[str, ...] = setting(
        (), group="texts and answers", is_positional=True, metavar="TEXT", help="text"
    )
    model: str = setting(
        metavar="DIR",
        help="encoder of `beambert pretrain`, a Hugging Face folder, or a TF1 checkpoint",
    )
    input: str | None = setting(None, metavar="FILE", help="UTF-8 file with a text on each line")
    output: str | None = setting(
        None, metavar="FILE", help="file that gets the answers as JSON (default: the console)"
    )

    def __post_init__(self) -> None:
        """Checks the values."""
        super().__post_init__()
        check_weights(self.model, "--model")

    def open_texts(self) -> list[str]:
        """Returns the texts, and makes Keras use the engine.

        Raises:
          InputError: the engine, the texts or the output cannot be used.
        """
        choose_engine(self)
        check_output(self.output)
        return given_texts(self.texts, self.input)


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
    io.check_new(path)
    io.write_bytes(path, "".join(map(json_line, rows)).encode())
