"""Finds the files of a growing corpus that no earlier run has read."""

from collections.abc import Mapping, Sequence

from apache_beam.io.filesystems import FileSystems

from beambert.errors import InputError
from beambert.folders import MARKER_FILE
from beambert.pipelines.input_files import INPUTS_FILE, InputFile, read_list
from beambert.pipelines.records.contract import INFO_FILE, RecordsInfo
from beambert.storage import absolute, read_bytes, storage_errors


def new_inputs(inputs: Sequence[InputFile], since: Sequence[str], output: str) -> list[InputFile]:
    """Returns the files from which no finished records folder was made.

    A file with another size or date than before is new.

    Args:
      inputs: all input files.
      since: patterns of records folders, or of the folders above them.
      output: path of the folder to make. If the patterns match it, its finished folders (one of
        several sequence lengths) are ignored.

    Raises:
      InputError: a pattern matches no finished records folder.
    """
    taken: set[InputFile] = set()
    for pattern in since:
        infos = _finished_infos(pattern.rstrip("/"))
        if not infos:
            raise InputError(
                f"--since={pattern}: no finished records folder there; check the path, or leave "
                "the flag out to take every file"
            )
        for folder, info in infos:
            if f"{absolute(folder)}/".startswith(f"{absolute(output)}/"):
                continue
            taken.update(_inputs_of(folder, info))
    return [file for file in inputs if file not in taken]


def _inputs_of(folder: str, info: RecordsInfo) -> Sequence[InputFile]:
    """Returns the files that the records in a folder were made of."""
    if isinstance(info.inputs, Mapping):  # They are too many for info.json.
        return read_list(FileSystems.join(folder, INPUTS_FILE))
    return [
        InputFile(one_input["path"], one_input["bytes"], one_input["modified"])
        for one_input in info.inputs
    ]


def _finished_infos(pattern: str) -> list[tuple[str, RecordsInfo]]:
    """Returns the finished folders that match a pattern, each with its info.json.

    They are the matching folders themselves, and the folders of each sequence length in them.
    """
    infos = []
    for below in ("", "/*"):
        try:
            (result,) = FileSystems.match([f"{pattern}{below}/{INFO_FILE}"])
        except (*storage_errors(), ValueError) as error:
            raise InputError(
                f"--since={pattern}: cannot be listed ({error}); check the path and your access"
            ) from error
        for metadata in result.metadata_list:
            folder = FileSystems.split(metadata.path)[0]
            if FileSystems.exists(FileSystems.join(folder, MARKER_FILE)):
                text = read_bytes(metadata.path, "--since").decode(errors="replace")
                infos.append((folder, RecordsInfo.from_json(text, metadata.path)))
    return infos
