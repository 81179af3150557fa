"""What a command of BeamBERT is."""

import dataclasses
import importlib
from collections.abc import Sequence

from beambert.pipelines.shared.console import run_main
from beambert.pipelines.shared.flags import FlagParser


@dataclasses.dataclass(frozen=True)
class Command:
    """A command. Its module is imported when it is asked for its flags or runs, not before.

    Attributes:
      name: the word after `beambert`.
      about: what it does, for the list of commands.
      module: where its `build_parser() -> FlagParser` and its `main(argv) -> None` are.
      needs_beam: whether it runs a pipeline, itself or in one of its steps. The others run where
        Apache Beam isn't installed.
    """

    name: str
    about: str
    module: str
    needs_beam: bool = False

    def build_parser(self) -> FlagParser:
        """Returns its flags."""
        return importlib.import_module(self.module).build_parser()

    def run(self, arguments: Sequence[str]) -> int:
        """Runs it; returns its exit status."""
        return run_main(self.name, importlib.import_module(self.module).main, arguments)
