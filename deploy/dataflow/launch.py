"""The program that Dataflow runs in the image of a template.

The launcher expects that the job is written to --template_location and the program succeeds. So the
program ends there and skips what the command does after its job. It must be the only module in its
folder, as Python puts that folder on the module path.
"""

import os
import sys
from typing import NoReturn

from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner

from beambert.cli import main as run_command
from beambert.deploy.flex_template import to_arguments


def main() -> int:
    """Runs the command of the image until its job is written."""
    run_pipeline = DataflowRunner.run_pipeline

    def stage(*arguments: object, **named: object) -> NoReturn:
        run_pipeline(*arguments, **named)
        sys.exit(0)

    DataflowRunner.run_pipeline = stage
    # The default image comes first, so that a given image overrides it.
    image = f"--sdk_container_image={os.environ['BEAMBERT_IMAGE']}"
    sys.argv[1:] = to_arguments(os.environ["BEAMBERT_COMMAND"], [image, *sys.argv[1:]])
    return run_command()


if __name__ == "__main__":
    sys.exit(main())
