"""The command `beambert judge`."""

import json
from collections.abc import Sequence

from beambert.pipelines.shared.flags import FlagParser
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.storage.given_paths import check_folder, is_local
from beambert.trainer.retrieval.settings import WAYS, way_of
from beambert.trainer.weights.given_path import check_weights

EXAMPLES = """examples:
  # a collection in the form of BEIR: its documents with their titles, their index, the judgment
  beambert embed --model=encoder --input=scifact/corpus.jsonl --id_column=_id \\
      --title_column=title --output=embeddings
  beambert index --embeddings=embeddings --output=index
  beambert judge --index=index --model=encoder --data_dir=scifact --output=judgment.json

  # by words alone (BM25), which is what to beat
  beambert judge --index=index --by=words --data_dir=scifact

The folder of --data_dir has queries.jsonl and qrels/SPLIT.tsv. The measures are those of trec_eval:
means over the queries that have a relevant document. A document ranks where its best passage does.
"""


def build_parser() -> FlagParser:
    """Returns the parser of the flags of `judge`."""
    parser = FlagParser(
        prog="beambert judge",
        description="Judges an index by queries whose relevant documents are known.",
        examples=EXAMPLES,
    )
    add = parser.add_argument
    add("--index", required=True, metavar="DIR", help="folder that `beambert index` finished")
    add(
        "--data_dir",
        required=True,
        metavar="DIR",
        help="folder with queries.jsonl and qrels/SPLIT.tsv, in the form of BEIR",
    )
    add("--split", default="test", metavar="NAME", help="split of qrels (default: %(default)s)")
    add("--model", metavar="DIR", help="model that made the embeddings")
    add(
        "--by",
        choices=WAYS,
        help="what passages are found by (default: both with --model, or else words)",
    )
    add("--reranker", metavar="DIR", help="model that ranks the best passages again")
    add("--prefix", help="what is put before each query (default: what was put before the texts)")
    add("--output", metavar="FILE", help="file that gets the measures as JSON")
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs `judge`.

    Raises:
      InputError: a flag, the model, the index or a file cannot be used.
    """
    flags = build_parser().parse_args(list(argv))
    way_of(flags.by, flags.model)
    check_folder(flags.index, f"--index={flags.index}")
    check_folder(flags.data_dir, f"--data_dir={flags.data_dir}")
    if flags.model and is_local(flags.model):
        check_weights(flags.model, "--model")
    with loading():
        from beambert.pipelines.storage import tensorflow_files
        from beambert.trainer.retrieval.judging import judge
    found = judge(
        flags.index,
        flags.data_dir,
        flags.split,
        flags.model,
        by=flags.by,
        reranker=flags.reranker,
        prefix=flags.prefix,
    )
    for name, value in found.items():
        print(f"{name:<12}{value:.4f}")
    if flags.output:
        tensorflow_files.write_bytes(flags.output, (json.dumps(found, indent=1) + "\n").encode())
