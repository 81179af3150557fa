"""What Dataflow runs in the image of a template; alone in its folder, which is on the path."""

import os
import sys

import beambert
from deploy.flex_template import to_arguments

if __name__ == "__main__":
    sys.argv[1:] = to_arguments(os.environ["BEAMBERT_COMMAND"], sys.argv[1:])
    sys.exit(beambert.main())
