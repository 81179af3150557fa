"""`python -m beambert.deploy.vertex COMMAND …`."""

import sys

from beambert.console import run_main
from beambert.deploy.vertex.command import main

if __name__ == "__main__":
    sys.exit(run_main("vertex", main, sys.argv[1:]))
