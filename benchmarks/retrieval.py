"""How well are the paragraphs of SQuAD found for its questions: by vectors, by words, by both?

    python -m benchmarks.retrieval --model=all-MiniLM-L6-v2 --squad=dev-v1.1.json

Each question has one relevant paragraph, the one that it was asked about. Every paragraph of the
file can be found. Without --model there is the search by words (BM25) alone.

What a training on questions of other articles is worth:

    python -m benchmarks.retrieval --squad=dev-v1.1.json --write_pairs=pairs
    beambert finetune --task=embedding --data_dir=pairs --init=all-MiniLM-L6-v2 --model_dir=trained
    python -m benchmarks.retrieval --squad=dev-v1.1.json --articles=even --model=trained

The pairs are those of the odd articles, counted from 0; those of the last three are for dev.

--reranker ranks the best 100 paragraphs of the best way again, by a model of --task=rerank or
--task=late_interaction.
"""

import json
import os
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import measuring

# Number of ranks that are kept, and of those that count.
_KEPT, _DEPTH = 100, 10
# The articles that are measured are every step-th one, from the first.
_ARTICLES = {"all": (0, 1), "even": (0, 2), "odd": (1, 2), "eighth": (0, 8)}
# Number of articles whose pairs are for dev.
_DEV_ARTICLES = 3


def read_articles(path: str, which: str) -> list[dict[str, Any]]:
    """Returns the articles of a file of SQuAD: all, or every second or eighth one."""
    first, step = _ARTICLES[which]
    return json.loads(pathlib.Path(path).read_text("utf-8"))["data"][first::step]


def read_squad(path: str, which: str = "all") -> tuple[list[str], list[tuple[str, int]]]:
    """Returns the paragraphs, each once, and the questions with the numbers of their paragraphs."""
    numbers: dict[str, int] = {}
    questions = []
    for article in read_articles(path, which):
        for paragraph in article["paragraphs"]:
            number = numbers.setdefault(paragraph["context"], len(numbers))
            questions += [(asked["question"].strip(), number) for asked in paragraph["qas"]]
    return list(numbers), questions


def write_pairs(articles: Sequence[dict[str, Any]], folder: str) -> dict[str, int]:
    """Writes train.jsonl and dev.jsonl of questions and their paragraphs.

    Returns:
      The numbers of their rows.
    """
    os.makedirs(folder, exist_ok=True)
    counts = {}
    for split, some in (
        ("train", articles[:-_DEV_ARTICLES]),
        ("dev", articles[-_DEV_ARTICLES:]),
    ):
        rows = [
            {"text": asked["question"].strip(), "text_b": paragraph["context"]}
            for article in some
            for paragraph in article["paragraphs"]
            for asked in paragraph["qas"]
        ]
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        pathlib.Path(folder, f"{split}.jsonl").write_text(text, "utf-8")
        counts[split] = len(rows)
    return counts


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: the model cannot be used.
    """
    parser = measuring.flag_parser("retrieval", __doc__)
    add = parser.add_argument
    add("--squad", required=True, metavar="FILE", help="file of SQuAD v1.1")
    add("--model", metavar="DIR", help="encoder")
    add(
        "--articles",
        choices=tuple(_ARTICLES),
        default="all",
        help="articles that are measured (default: %(default)s)",
    )
    add("--reranker", metavar="DIR", help="model that ranks the best paragraphs again")
    add("--write_pairs", metavar="DIR", help="write the pairs of the odd articles, and no more")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))

    if flags.write_pairs:
        print(write_pairs(read_articles(flags.squad, "odd"), flags.write_pairs))
        return

    from beambert.trainer.retrieval.indexing import (
        FUSED_DEPTH,
        best_of,
        bm25_of,
        fused,
        words_of,
    )
    from beambert.trainer.retrieval.judging import evaluate

    paragraphs, questions = read_squad(flags.squad, flags.articles)
    index = bm25_of(map(words_of, paragraphs))
    vectors, seconds = None, {}
    if flags.model:
        from beambert.trainer.embedding.embedder import open_embedder

        embedder, started = open_embedder(flags.model), time.monotonic()
        vectors = [embedder.embed(texts)[0] for texts in (paragraphs, [q for q, _ in questions])]
        vectors = [vector / np.linalg.norm(vector, axis=1, keepdims=True) for vector in vectors]
        seconds["embedding"] = round(time.monotonic() - started, 1)
    runs: dict[str, dict[str, dict[str, float]]] = {}
    for number, (question, _) in enumerate(questions):
        rankings = {"words": index.search(words_of(question), FUSED_DEPTH)}
        if vectors:
            by_vectors = best_of(vectors[0] @ vectors[1][number], FUSED_DEPTH)
            rankings["vectors"] = by_vectors
            rankings["both"] = fused([by_vectors, rankings["words"]], _KEPT)
        for way, ranking in rankings.items():
            # Ranks in place of scores keep the order of equal ones.
            found = enumerate(ranking.numbers_K[:_KEPT].tolist())
            ranks = {str(place): -float(rank) for rank, place in found}
            runs.setdefault(way, {})[str(number)] = ranks
    if flags.reranker:
        from beambert.trainer.retrieval.searching import open_reranker

        reranker, started = open_reranker(flags.reranker), time.monotonic()
        for number, (question, _) in enumerate(questions):
            places = list(runs["both" if vectors else "words"][str(number)])
            scores = reranker.scores(question, [paragraphs[int(place)] for place in places])
            ranks = {place: float(score) for place, score in zip(places, scores, strict=True)}
            runs.setdefault("ranked again", {})[str(number)] = ranks
        seconds["ranking again"] = round(time.monotonic() - started, 1)
    judgments = {str(number): {str(each): 1} for number, (_, each) in enumerate(questions)}
    names = (f"Recall@{_DEPTH}", f"MRR@{_DEPTH}", f"nDCG@{_DEPTH}")
    measured = {way: evaluate(judgments, run, [_DEPTH]) for way, run in runs.items()}
    result = {
        "paragraphs": len(paragraphs),
        "questions": len(questions),
        "seconds": seconds,
        "measures": {
            way: {name: round(each[name], 4) for name in names} for way, each in measured.items()
        },
    }
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
