"""The command `beambert search`."""

import dataclasses
import json
from collections.abc import Sequence

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.flags import FlagParser, check_minimum
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.storage.given_paths import check_folder, is_local
from beambert.trainer.weights.given_path import check_weights

EXAMPLES = """examples:
  # passages of at most 150 words of some files; then the best ones for a question
  beambert embed --model=encoder --input='docs/*.txt' --unit=file --passage_words=150 \\
      --output=index
  beambert search --model=encoder --index=index 'Who may import whom?'

  # by words alone (BM25), which needs no model; a query on each line -> JSON Lines
  beambert search --index=index --by=words --input=queries.txt --output=hits.jsonl

By default a passage is found by its vector and by its words, and the reciprocals of its two ranks
are added. All vectors are compared with the query's, in memory. The same model must have made them.
"""


def build_parser() -> FlagParser:
    """Returns the parser of the flags of `search`."""
    parser = FlagParser(
        prog="beambert search",
        description="Finds the passages of a folder of embeddings that answer a query.",
        examples=EXAMPLES,
    )
    add = parser.add_argument
    add("texts", nargs="*", metavar="QUERY", help="query")
    add("--index", required=True, metavar="DIR", help="folder that `beambert embed` finished")
    add("--model", metavar="DIR", help="model that made the embeddings")
    add(
        "--by",
        choices=("vectors", "words", "both"),
        help="what passages are found by (default: both with --model, or else words)",
    )
    add("--top", type=int, default=10, help="number of passages (default: %(default)s)")
    add("--prefix", help="what is put before each query (default: what was put before the texts)")
    add("--input", metavar="FILE", help="UTF-8 file with a query on each line")
    add("--output", metavar="FILE", help="file that gets the hits as JSON (default: the console)")
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs `search`.

    Raises:
      InputError: a flag, the model, the index or a query cannot be used.
    """
    flags = build_parser().parse_args(list(argv))
    check_minimum(flags, 1, "top")
    way = flags.by or ("both" if flags.model else "words")
    if way == "words" and flags.model:
        raise InputError(f"--model={flags.model}: is not needed by --by=words; leave it out")
    if way != "words" and not flags.model:
        raise InputError(f"--by={way}: needs --model; name the model that made --index")
    check_folder(flags.index, f"--index={flags.index}")
    if flags.model and is_local(flags.model):
        check_weights(flags.model, "--model")
    with loading():
        from beambert.trainer.asking.texts import given_texts, write_lines
        from beambert.trainer.embedding.embedder import open_embedder
        from beambert.trainer.retrieval.searching import open_index, query_embedder
    queries = given_texts(flags.texts, flags.input)
    index = open_index(flags.index)
    if way != "vectors" and not index.has_text:
        raise InputError(
            f"--by={way}: needs the texts, which --index was made without (--keep_text); give "
            "--by=vectors"
        )
    vectors = [None] * len(queries)
    if flags.model:
        vectors, _ = query_embedder(index, open_embedder(flags.model), flags.prefix).embed(queries)
    found = [
        index.rank(query, vector, way, flags.top)
        for query, vector in zip(queries, vectors, strict=True)
    ]
    if flags.output:
        rows = zip(queries, found, strict=True)
        write_lines(
            flags.output,
            ({"query": query, "hits": list(map(dataclasses.asdict, hits))} for query, hits in rows),
        )
        print(f"{flags.output}: hits of {len(queries):,} queries")
        return
    for query, hits in zip(queries, found, strict=True):
        print(query)
        for hit in hits:
            place = f"{hit.file}:{hit.line}" + (f", character {hit.start:,}" if hit.start else "")
            print(f"  {hit.score:.4f}  {place}  {json.dumps(hit.text[:100], ensure_ascii=False)}")
