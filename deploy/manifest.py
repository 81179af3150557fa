"""Writes the manifest of a delivery to standard output.

python -m beambert.deploy.manifest --folder=gs://BUCKET-text 2026-11-21-*.jsonl.gz \\
    > 2026-11-21.manifest.json

The files must lie in one folder here. They are copied to the folder that --folder names, and the
manifest then to the folder of manifests. Without --folder, the manifest belongs next to its files.
"""

import json
import os
import sys
from collections.abc import Sequence

from beambert.cli import run_main
from beambert.errors import InputError
from beambert.flags import FlagParser


def manifest(paths: Sequence[str], folder: str = "") -> dict[str, list[dict[str, object]]]:
    """Returns the manifest of some files in one folder.

    Args:
      paths: paths of the files.
      folder: folder that they are copied to; "" if the manifest will lie next to them.

    Raises:
      InputError: a file cannot be read, or they lie in several folders.
    """
    if len({os.path.dirname(os.path.abspath(path)) for path in paths}) > 1:
        raise InputError(
            f"{' '.join(paths)}: lie in several folders; write a manifest for each of them"
        )
    files = []
    for path in sorted(paths):
        if not os.path.isfile(path):
            raise InputError(f"{path}: is no file on this machine; name the files of the delivery")
        name = os.path.join(folder, os.path.basename(path))
        files.append({"path": name, "bytes": os.path.getsize(path)})
    return {"files": files}


def build_parser() -> FlagParser:
    """Returns the parser of the command's flags."""
    parser = FlagParser(prog="python -m beambert.deploy.manifest", description=__doc__)
    parser.add_argument(
        "--folder",
        default="",
        help="folder that the files are copied to, "
        "in full or as seen from the manifest's folder (default: that folder)",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="file of the delivery")
    return parser


def main(argv: Sequence[str]) -> None:
    """Prints the manifest of the files.

    Raises:
      InputError: see `manifest`.
    """
    flags = build_parser().parse_args(list(argv))
    print(json.dumps(manifest(flags.files, flags.folder), indent=1))


if __name__ == "__main__":
    sys.exit(run_main("manifest", main, sys.argv[1:]))
