"""`python -m beambert COMMAND …`, the same as `beambert COMMAND …`."""

import sys

from beambert.commands import main

if __name__ == "__main__":
    sys.exit(main())
