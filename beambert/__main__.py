"""`python -m beambert COMMAND …`, the same as `beambert COMMAND …`."""

import sys

from beambert.pipelines.shared import interrupts

if __name__ != "__mp_main__":  # a process of `multiprocessing` imports this, too
    interrupts.install()  # before the other imports, which take a moment

from beambert.commands import main

if __name__ == "__main__":
    sys.exit(main())
