"""Writes the manifest of a delivery to standard output.

python -m beambert.deploy.manifest 2026-11-21-*.jsonl.gz > 2026-11-21.manifest.json

The files must lie in one folder. They and then the manifest are copied to the folder of deliveries.
"""

import json
import os
import sys
from collections.abc import Sequence

from beambert.pipelines.shared.console import run_main
from beambert.pipelines.shared.errors import InputError


def manifest(paths: Sequence[str]) -> dict[str, list[dict[str, object]]]:
    """Returns the manifest of some files in one folder.

    Raises:
      InputError: there is no file, one cannot be read, or they lie in several folders.
    """
    if not paths or len({os.path.dirname(os.path.abspath(path)) for path in paths}) > 1:
        raise InputError(
            f"{' '.join(paths) or 'FILES'}: are not files of one folder; name them all"
        )
    files = []
    for path in sorted(paths):
        if not os.path.isfile(path):
            raise InputError(f"{path}: is no file; name the files of the delivery")
        files.append({"path": os.path.basename(path), "bytes": os.path.getsize(path)})
    return {"files": files}


def main(argv: Sequence[str]) -> None:
    """Prints the manifest of the files."""
    print(json.dumps(manifest(argv), indent=1))


if __name__ == "__main__":
    sys.exit(run_main("manifest", main, sys.argv[1:]))
