"""Other systems in interpreters of their own, which do one piece of work a line."""

import json
import pathlib
import subprocess
from typing import Any

from beambert.pipelines.shared.errors import InputError


class Peer:
    """A script in peers/ that answers every line with one, having done its work."""

    def __init__(self, script: str, python: str, asked: dict[str, Any]):
        """Starts the script, and waits until it is ready.

        Args:
          script: name of the file.
          python: interpreter that has what the script imports; it needs nothing of this project.
          asked: what the script is to do.

        Raises:
          InputError: there is no such interpreter, or the script ended.
        """
        path = pathlib.Path(__file__).with_name("peers") / script
        self._name = f"{python} {path.name}"
        try:
            self._process = subprocess.Popen(
                [python, path, json.dumps(asked)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            raise InputError(f"{python}: no interpreter that runs: {error.strerror}") from error
        self._answer()

    def _answer(self) -> None:
        if not self._process.stdout.readline():
            raise InputError(f"`{self._name}` ended early; its message stands above")

    def step(self) -> None:
        """Does one piece of work.

        Raises:
          InputError: the script ended.
        """
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        self._answer()

    def end(self) -> None:
        """Lets the process end."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
