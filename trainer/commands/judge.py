"""The command `beambert judge`."""

import json
from collections.abc import Sequence

from beambert.config import add_settings, read_settings
from beambert.flags import FlagParser
from beambert.process import loading
from beambert.storage import check_folder
from beambert.trainer.retrieval.settings import Finding

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
    add_settings(parser, Finding)
    add = parser.add_argument
    add(
        "--data_dir",
        required=True,
        metavar="DIR",
        help="folder with queries.jsonl and qrels/SPLIT.tsv, in the form of BEIR",
    )
    add("--split", default="test", metavar="NAME", help="split of qrels (default: %(default)s)")
    add("--output", metavar="FILE", help="file that gets the measures as JSON")
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs `judge`.

    Raises:
      InputError: a flag, the model, the index or a file cannot be used.
    """
    flags = build_parser().parse_args(list(argv))
    read_settings(Finding, flags).check_paths()
    check_folder(flags.data_dir, f"--data_dir={flags.data_dir}")
    with loading():
        from beambert import storage
        from beambert.trainer.commands.texts import check_output
        from beambert.trainer.retrieval.judging import judge
    check_output(flags.output)
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
        storage.check_new(flags.output)
        storage.write_bytes(flags.output, (json.dumps(found, indent=1) + "\n").encode())
