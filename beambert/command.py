"""The commands of BeamBERT: names, modules, and how one is run."""

import dataclasses
import importlib
from collections.abc import Sequence

from beambert import interrupts
from beambert.console import interruption, run_main
from beambert.flags import FlagParser
from beambert.loading import in_command


@dataclasses.dataclass(frozen=True)
class Command:
    """A command. Its module is imported only when its flags are needed or it runs.

    Attributes:
      name: word after `beambert` on the command line.
      about: description for the list of commands.
      module: module that has `build_parser() -> FlagParser` and `main(argv) -> None`.
      needs_beam: True if the command, or a step of it, runs a pipeline. The other commands also run
        on machines without Apache Beam.
      resumes: True if the command, interrupted, continues what it has begun; the other commands
        begin anew.
    """

    name: str
    about: str
    module: str
    needs_beam: bool = False
    resumes: bool = False

    def build_parser(self) -> FlagParser:
        """Returns the parser of the command's flags."""
        return importlib.import_module(self.module).build_parser()

    def run(self, arguments: Sequence[str]) -> int:
        """Runs the command and returns its exit status."""
        interrupts.set_sentence(interruption(self.name, self.resumes))
        with in_command():
            main = importlib.import_module(self.module).main
            return run_main(self.name, main, arguments, self.resumes)
