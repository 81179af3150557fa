"""Which files of a growing corpus earlier runs have taken already."""

from collections.abc import Sequence

from apache_beam.io.filesystems import FileSystems

from beambert.pipelines.jobs.files import STORAGE_ERRORS, read_bytes
from beambert.pipelines.jobs.input_files import InputFile
from beambert.pipelines.records.contract import INFO_FILE, RecordsInfo
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.claims import MARKER_FILE, absolute


def new_inputs(inputs: Sequence[InputFile], since: Sequence[str], output: str) -> list[InputFile]:
    """Returns the files that no finished records folder was made from.

    A file that has changed since (another size or date) is new.

    Args:
      inputs: all files there are.
      since: patterns of records folders, or of the folders above them.
      output: the folder to make, which the patterns may match: what is finished in it (one of
        several lengths) has taken nothing from the rest of it.

    Raises:
      InputError: a pattern matches no finished records folder.
    """
    taken = set()
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
            taken |= {(of["path"], of["bytes"], of["modified"]) for of in info.inputs}
    return [file for file in inputs if (file.path, file.bytes, file.modified) not in taken]


def _finished_infos(pattern: str) -> list[tuple[str, RecordsInfo]]:
    """Reads info.json of the matching folders, or of those for each sequence length in them.

    Returns:
      (folder, what its info.json holds) of each.
    """
    infos = []
    for below in ("", "/*"):
        try:
            (result,) = FileSystems.match([f"{pattern}{below}/{INFO_FILE}"])
        except (*STORAGE_ERRORS, ValueError) as error:
            raise InputError(f"--since={pattern}: cannot be listed ({error})") from error
        for metadata in result.metadata_list:
            folder = FileSystems.split(metadata.path)[0]
            if FileSystems.exists(FileSystems.join(folder, MARKER_FILE)):
                text = read_bytes(metadata.path, "--since").decode(errors="replace")
                infos.append((folder, RecordsInfo.from_json(text, metadata.path)))
    return infos
