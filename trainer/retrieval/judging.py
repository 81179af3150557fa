"""Judges an index by a collection in the form of BEIR."""

import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence

from beambert.errors import InputError
from beambert.trainer.retrieval.beir import read_judged
from beambert.trainer.retrieval.measures import evaluate
from beambert.trainer.retrieval.searcher import Searcher
from beambert.trainer.retrieval.searching import Hit, open_index
from beambert.trainer.retrieval.settings import CANDIDATES

# Numbers of ranks that count; of BEIR's, nDCG@10 and Recall@100 are those that papers report.
DEPTHS = (1, 10, 100)


def judge(
    index: str,
    data_dir: str,
    split: str = "test",
    model: str | None = None,
    *,
    by: str | None = None,
    reranker: str | None = None,
    prefix: str | None = None,
) -> dict[str, float]:
    """Returns nDCG, MRR, MAP and recall of an index, such as `nDCG@10`, as trec_eval computes them.

    A document ranks where its best passage does.

    Args:
      index: folder that `beambert index` finished, of embeddings with identifiers.
      data_dir: folder with queries.jsonl and qrels.
      split: name of the split whose judgments count.
      model: model that made the vectors of the index; None to search by words alone.
      by: what passages are found by, see `Searcher`.
      reranker: model that ranks the best passages again; None for none.
      prefix: what is put before each query (default: what was put before the texts).

    Raises:
      InputError: the index, a model or a file cannot be used, or a judgment names what isn't there.
    """
    passages = open_index(index).passages
    if "id" not in passages.column_names:
        raise InputError(
            f"--index={index}: has no identifiers of documents; make the embeddings with "
            "--id_column=_id"
        )
    counts = Counter(passages["id"].to_pylist())
    judged = read_judged(pathlib.Path(data_dir), split, counts)
    searcher = Searcher(index, model, by=by, reranker=reranker, prefix=prefix)
    # So many passages have the best hundred documents even if these are the longest ones.
    most = sum(count for _, count in counts.most_common(DEPTHS[-1]))
    found = searcher.search(list(judged.queries.values()), CANDIDATES if reranker else most)
    run = {query: ranks_of(hits) for query, hits in zip(judged.queries, found, strict=True)}
    return evaluate(judged.judgments, run, DEPTHS)


def ranks_of(hits: Sequence[Hit]) -> Mapping[str, float]:
    """Returns the score of each document: the negative rank of its best passage.

    Ranks in place of scores keep the order of passages with equal scores.
    """
    ranks: dict[str, float] = {}
    for rank, hit in enumerate(hits):
        ranks.setdefault(hit.id, -float(rank))
    return ranks
