"""Makes golden_retrieval.json: random runs and judgments, and trec_eval's measures of them.

    python make_golden_retrieval.py golden_retrieval.json

Scores have few different values, so that many are equal. A third of the documents has no
judgment, grades go from -1 to 3, one query has no relevant document, and one is not in the run.
MRR@k is trec_eval's recip_rank of the run's first k documents. `bm25` has documents and queries of
letters, and the scores that bm25s gives by Lucene's formula.
Needs pytrec_eval-terrier and bm25s (made with 0.5.11 and 0.3.16), which the tests do not.
"""

import json
import pathlib
import random
import sys

import bm25s
import pytrec_eval

DEPTHS = (1, 3, 10)
NAMES = {"nDCG": "ndcg_cut_{}", "MAP": "map_cut_{}", "Recall": "recall_{}"}


def made(seed: int) -> tuple[dict, dict]:
    """Returns random judgments and a random run."""
    random.seed(seed)
    judgments, run = {}, {}
    for number in range(12):
        documents = [f"d{document}" for document in range(30)]
        judged = random.sample(documents, 20)
        grades = [-1, 0, 0, 1, 2, 3] if number else [0]
        judgments[f"q{number}"] = {document: random.choice(grades) for document in judged}
        found = random.sample(documents, random.randint(2, 25))
        run[f"q{number}"] = {document: random.randint(0, 4) / 2 for document in found}
    del run["q5"]
    return judgments, run


def first(scores: dict, depth: int) -> dict:
    """Returns the first documents in trec_eval's order."""
    order = sorted(scores, key=lambda name: (scores[name], name), reverse=True)
    return {name: scores[name] for name in order[:depth]}


def measured(judgments: dict, run: dict) -> dict[str, float]:
    """Returns trec_eval's means over the queries that have a relevant document."""
    queries = [query for query, judgment in judgments.items() if max(judgment.values()) > 0]

    def mean(name: str, run: dict) -> float:
        measure = name.rpartition("_")[0] if name[-1].isdecimal() else name
        cut = f"{measure}.{name.rpartition('_')[2]}" if name[-1].isdecimal() else name
        found = pytrec_eval.RelevanceEvaluator(judgments, {cut}).evaluate(run)
        return sum(found.get(query, {}).get(name, 0.0) for query in queries) / len(queries)

    results = {}
    for depth in DEPTHS:
        for ours, theirs in NAMES.items():
            results[f"{ours}@{depth}"] = mean(theirs.format(depth), run)
        cut = {query: first(scores, depth) for query, scores in run.items()}
        results[f"MRR@{depth}"] = mean("recip_rank", cut)
    return results


def bm25_scores() -> dict:
    """Returns random documents and queries of letters, and the scores of all documents."""
    random.seed(7)
    documents = [random.choices("abcdefghij", k=random.randint(1, 12)) for _ in range(12)]
    queries = [["a"], ["b", "c"], ["j", "j", "e"], ["x", "d"]]
    retriever = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    retriever.index(documents, show_progress=False)
    scores = [retriever.get_scores(query).tolist() for query in queries]
    return {"documents": documents, "queries": queries, "scores": scores}


if __name__ == "__main__":
    cases = []
    for seed in range(3):
        judgments, run = made(seed)
        cases.append({"judgments": judgments, "run": run, "measures": measured(judgments, run)})
    golden = {"depths": DEPTHS, "cases": cases, "bm25": bm25_scores()}
    pathlib.Path(sys.argv[1]).write_text(json.dumps(golden) + "\n")
