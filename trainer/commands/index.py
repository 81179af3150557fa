"""The command `beambert index`."""

import dataclasses
import functools
from collections.abc import Sequence

from beambert.config import Settings, read_settings, setting, settings_parser
from beambert.io import check_folder
from beambert.process import loading

EXAMPLES = """examples:
  # passages of at most 150 words of some files; their index; the best ones for a question
  beambert embed --model=encoder --input='docs/*.txt' --unit=file --passage_words=150 \\
      --output=embeddings
  beambert index --embeddings=embeddings --output=index
  beambert search --index=index --model=encoder 'Who may import whom?'

  # of a large corpus, parts that were embedded on several machines; files that came later
  beambert index --embeddings gs://bucket/part-1 gs://bucket/part-2 new --output=index

A search compares all vectors. The words of the passages are indexed with them (BM25). A search maps
the files into memory and reads what it needs of them.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Indexing(Settings):
    """The settings of `index`."""

    embeddings: tuple[str, ...] = setting(
        metavar="DIR",
        help="folders that `beambert embed` finished, of different files by the same model",
    )
    output: str = setting(metavar="DIR", help="folder of this machine to make")


build_parser = functools.partial(
    settings_parser,
    Indexing,
    "index",
    "Makes an index of embeddings, in which `beambert search` finds passages.",
    EXAMPLES,
)


def main(argv: Sequence[str]) -> None:
    """Runs `index`.

    Raises:
      InputError: a flag or a folder cannot be used.
    """
    flags = read_settings(Indexing, build_parser().parse_args(list(argv)))
    for folder in flags.embeddings:
        check_folder(folder, f"--embeddings={folder}")
    with loading():
        from beambert.trainer.retrieval.indexing import make_index
    make_index(flags.embeddings, flags.output)
