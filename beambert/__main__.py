"""`python -m beambert COMMAND …`, the same as `beambert COMMAND …`."""

import sys

from beambert import process

if __name__ == "__main__":
    process.install()  # before the other imports, which take a moment

from beambert.cli import main

if __name__ == "__main__":
    sys.exit(main())
