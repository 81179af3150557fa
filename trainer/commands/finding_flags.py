"""The flags of the commands that find passages in an index."""

import argparse

from beambert.flags import FlagParser
from beambert.pipelines.storage.given_paths import check_folder
from beambert.trainer.retrieval.settings import WAYS, way_of
from beambert.trainer.weights.given_path import check_weights


def add_finding_flags(parser: FlagParser) -> None:
    """Adds the flags that say in which index passages are found, and how."""
    add = parser.add_argument
    add("--index", required=True, metavar="DIR", help="folder that `beambert index` finished")
    add("--model", metavar="DIR", help="model that made the embeddings")
    add(
        "--by",
        choices=WAYS,
        help="what passages are found by (default: both with --model, or else words; vectors if "
        "the index has no words)",
    )
    add(
        "--reranker",
        metavar="DIR",
        help="model of --task=rerank or late_interaction that compares the tokens of the query "
        "with those of the best passages, and ranks them again",
    )
    add("--prefix", help="what is put before each query (default: what was put before the texts)")


def check_finding_flags(flags: argparse.Namespace) -> None:
    """Checks what can be seen of the flags before TensorFlow is loaded.

    Raises:
      InputError: one of them cannot be used.
    """
    way_of(flags.by, flags.model)
    check_folder(flags.index, f"--index={flags.index}")
    if flags.model:
        check_weights(flags.model, "--model")
