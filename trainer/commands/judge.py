"""The command `beambert judge`."""

import dataclasses
import functools
import json
from collections.abc import Sequence

from beambert.config import read_settings, setting, settings_parser
from beambert.io import check_folder
from beambert.process import loading
from beambert.trainer.commands.texts import check_output
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judging(Finding):
    """The settings of `judge`."""

    data_dir: str = setting(
        metavar="DIR", help="folder with queries.jsonl and qrels/SPLIT.tsv, in the form of BEIR"
    )
    split: str = setting("test", metavar="NAME", help="split of qrels")
    output: str | None = setting(None, metavar="FILE", help="file that gets the measures as JSON")


build_parser = functools.partial(
    settings_parser,
    Judging,
    "judge",
    "Judges an index by queries whose relevant documents are known.",
    EXAMPLES,
)


def main(argv: Sequence[str]) -> None:
    """Runs `judge`.

    Raises:
      InputError: a flag, the model, the index or a file cannot be used.
    """
    flags = read_settings(Judging, build_parser().parse_args(list(argv)))
    flags.check_paths()
    check_folder(flags.data_dir, f"--data_dir={flags.data_dir}")
    with loading():
        from beambert import io
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
        io.check_new(flags.output)
        io.write_bytes(flags.output, (json.dumps(found, indent=1) + "\n").encode())
