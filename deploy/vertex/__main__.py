"""`python -m beambert.deploy.vertex COMMAND …`."""

import sys

from beambert.deploy.vertex.command import main
from beambert.pipelines.shared.console import run_main

if __name__ == "__main__":
    sys.exit(run_main("vertex", main, sys.argv[1:]))
