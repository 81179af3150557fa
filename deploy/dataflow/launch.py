"""What Dataflow runs in the image of a template; alone in its folder, which is on the path.

The launcher wants the job written to --template_location, and success. What the command does after
the job has no place here.
"""

import os
import sys
from typing import NoReturn

from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner

from beambert.commands import main as run_command
from beambert.deploy.flex_template import to_arguments


def main() -> int:
    """Runs the command that the image is for, up to its job."""
    run_pipeline = DataflowRunner.run_pipeline

    def stage(*arguments: object, **named: object) -> NoReturn:
        run_pipeline(*arguments, **named)
        sys.exit(0)

    DataflowRunner.run_pipeline = stage
    # Before what was given, so that an image that was given counts.
    image = f"--sdk_container_image={os.environ['BEAMBERT_IMAGE']}"
    sys.argv[1:] = to_arguments(os.environ["BEAMBERT_COMMAND"], [image, *sys.argv[1:]])
    return run_command()


if __name__ == "__main__":
    sys.exit(main())
