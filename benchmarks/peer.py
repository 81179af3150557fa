"""Other systems in interpreters of their own, which do one piece of work a line."""

import json
import pathlib
import subprocess
from typing import Any


class Peer:
    """A script that answers every line with one, having done its work."""

    def __init__(self, script: str, python: str, asked: dict[str, Any]):
        """Starts a script of this folder, and waits until it is ready.

        Args:
          script: name of the file.
          python: interpreter that has what the script imports.
          asked: what it is to do.
        """
        path = pathlib.Path(__file__).with_name(script)
        self._process = subprocess.Popen(
            [python, path, json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def _answer(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a peer ended early; see its message above")
        return line

    def step(self) -> None:
        """Does one piece of work."""
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        self._answer()

    def end(self) -> None:
        """Lets the process end."""
        self._process.stdin.close()
        self._process.wait()
