"""The command `beambert search`."""

import dataclasses
import functools
import json
from collections.abc import Sequence

from beambert.config import read_settings, setting, settings_parser
from beambert.process import loading
from beambert.trainer.commands.texts import check_output, given_texts, write_lines
from beambert.trainer.retrieval.settings import TOP, Finding

EXAMPLES = """examples:
  # passages of at most 150 words of some files; their index; the best ones for a question
  beambert embed --model=encoder --input='docs/*.txt' --unit=file --passage_words=150 \\
      --output=embeddings
  beambert index --embeddings=embeddings --output=index
  beambert search --model=encoder --index=index 'Who may import whom?'

  # by words alone (BM25), which needs no model; a query on each line -> JSON Lines
  beambert search --index=index --by=words --input=queries.txt --output=hits.jsonl

  # the 100 best passages, ranked again by a model of `beambert finetune --task=rerank`
  # or --task=late_interaction
  beambert search --model=encoder --index=index --reranker=reranker 'Who may import whom?'

By default a passage is found by its vector and by its words, and the reciprocals of its two ranks
are added. The same model must have made the vectors of the index.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search(Finding):
    """The settings of `search`."""

    texts: tuple[str, ...] = setting((), is_positional=True, metavar="QUERY", help="query")
    top: int = setting(TOP, minimum=1, metavar="N", help="number of passages")
    input: str | None = setting(None, metavar="FILE", help="UTF-8 file with a query on each line")
    output: str | None = setting(
        None, metavar="FILE", help="file that gets the hits as JSON (default: the console)"
    )


build_parser = functools.partial(
    settings_parser,
    Search,
    "search",
    "Finds the passages of an index that answer a query.",
    EXAMPLES,
)


def main(argv: Sequence[str]) -> None:
    """Runs `search`.

    Raises:
      InputError: a flag, the model, the index or a query cannot be used.
    """
    flags = read_settings(Search, build_parser().parse_args(list(argv)))
    flags.check_paths()
    with loading():
        from beambert.trainer.retrieval.searching import Searcher
    check_output(flags.output)
    queries = given_texts(flags.texts, flags.input)
    searcher = Searcher(
        flags.index, flags.model, by=flags.by, reranker=flags.reranker, prefix=flags.prefix
    )
    found = searcher.search(queries, flags.top)
    count, tokens = searcher.cut(queries)
    if count:
        print(f"{count:,} of {len(queries):,} queries cut to {tokens:,} tokens for their vectors")
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
        if not hits:
            print("  no passage has a word of it")
        for hit in hits:
            place = f"{hit.file}:{hit.line}" + (f", character {hit.start:,}" if hit.start else "")
            place = f"{hit.id} ({place})" if hit.id else place
            text = json.dumps(" ".join(hit.text.split())[:100], ensure_ascii=False)
            print(f"  {hit.score:.4f}  {place}  {text}")
