"""Runs other systems in their own interpreters; a line asks for one piece of work."""

import json
import pathlib
import subprocess
from typing import Any

from beambert.errors import InputError


class Peer:
    """A script in peers/ that does a piece of work for every line, and answers with a line."""

    def __init__(self, script: str, python: str, asked: dict[str, Any]):
        """Starts the script, and waits until it is ready.

        Args:
          script: name of the script's file.
          python: interpreter that has the packages of the other system; this project is not needed.
          asked: parameters of the work.

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
            raise InputError(
                f"{python}: cannot be run ({error.strerror}); name a Python interpreter"
            ) from error
        self._answer()

    def _answer(self) -> None:
        if not self._process.stdout.readline():
            raise InputError(f"{self._name}: ended early; see its message above")

    def step(self) -> None:
        """Does one piece of work.

        Raises:
          InputError: the script ended.
        """
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        self._answer()

    def end(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
