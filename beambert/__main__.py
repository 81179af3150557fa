"""`python -m beambert COMMAND …`, the same as `beambert COMMAND …`."""

import sys

from beambert import interrupts

if __name__ == "__main__":
    interrupts.install()  # before the other imports, which take a moment

from beambert.commands import main

if __name__ == "__main__":
    sys.exit(main())
