"""What words alone tell: TF-IDF with logistic regression, or with linear regression for numbers.

It takes seconds, so a trained model is worth its cost only where it is better. Weights and loss are
those of scikit-learn's `TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2))` and
`LogisticRegression(C=3)`.
"""

import collections
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy.optimize
import scipy.sparse
import scipy.special
from numpy.typing import NDArray

# A run of letters and digits, or a single character of a script without spaces.
_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
WORD = re.compile(rf"[{_NO_SPACES}]|[^\W{_NO_SPACES}]+")
# More examples to learn from change little and take minutes.
MOST_EXAMPLES = 50_000
# Terms of fewer texts make the model large and teach nothing.
_LEAST_TEXTS = 2
# The weight of the examples against that of the penalty, as in scikit-learn.
_C = 3.0
_ITERATIONS = 100

# One text or two.
Texts = Sequence[str]


class Words:
    """The TF-IDF of words and of pairs of neighbours, learned from some texts."""

    def __init__(self, train: Sequence[Texts]):
        """Takes the texts of the examples to learn from; all have one, or all have two."""
        documents = collections.Counter()
        for texts in train:
            documents.update(set(_terms(texts)))
        found = {term: count for term, count in documents.items() if count >= _LEAST_TEXTS}
        self._columns = {term: number for number, term in enumerate(found)}
        counts = np.fromiter(found.values(), float, len(found))
        self._idf = np.log((1 + len(train)) / (1 + counts)) + 1

    def matrix(self, examples: Sequence[Texts]) -> scipy.sparse.csr_matrix:
        """Returns the features, float [examples, terms]; of pairs also the cosine of the two."""
        found = self._tfidf(_terms(texts) for texts in examples)
        if len(examples[0]) == 1:
            return found
        first, second = (
            self._tfidf(_terms(texts[i : i + 1]) for texts in examples) for i in range(2)
        )
        cosines = scipy.sparse.csr_matrix(first.multiply(second).sum(axis=1))
        return scipy.sparse.hstack([found, cosines], format="csr")

    def _tfidf(self, examples: Iterator[Iterator[str]]) -> scipy.sparse.csr_matrix:
        values, columns, ends = [], [], [0]
        for terms in examples:
            counts = collections.Counter(term for term in terms if term in self._columns)
            found = [self._columns[term] for term in counts]
            weights = (1 + np.log(list(counts.values()))) * self._idf[found]
            values.append(weights / max(np.linalg.norm(weights), 1e-12))
            columns += found
            ends.append(len(columns))
        shape = len(ends) - 1, len(self._idf)
        return scipy.sparse.csr_matrix((np.concatenate(values), columns, ends), shape=shape)


def _terms(texts: Texts) -> Iterator[str]:
    """Yields the words and the pairs of neighbours; those of a second text are others."""
    for number, text in enumerate(texts):
        mark = "\n" * number
        words = [mark + word for word in WORD.findall(text.lower())]
        yield from words
        yield from map(" ".join, zip(words[:-1], words[1:], strict=True))


def _some(train: Sequence[Texts], targets: NDArray) -> tuple[Sequence[Texts], NDArray]:
    if len(train) <= MOST_EXAMPLES:
        return train, targets
    chosen = np.random.default_rng(1).choice(len(train), MOST_EXAMPLES, replace=False)
    return [train[i] for i in chosen], targets[chosen]


def probabilities(
    train: Sequence[Texts], targets: NDArray, examples: Sequence[Texts], exclusive: bool = True
) -> NDArray[np.float64]:
    """Returns the probabilities of labels by logistic regression, [examples, labels].

    Args:
      train: texts to learn from; of more than `MOST_EXAMPLES`, some are drawn.
      targets: 1 for a label that applies, else 0, [train, labels].
      examples: texts to answer.
      exclusive: whether one label applies (softmax), or any number of them (sigmoids).
    """
    train, targets = _some(train, targets)
    words = Words(train)
    features, labels = words.matrix(train), targets.shape[1]
    shape = features.shape[1] + 1, labels
    link = scipy.special.softmax if exclusive else _sigmoid

    def loss(flat: NDArray) -> tuple[float, NDArray]:
        weights = flat.reshape(shape)
        logits = features @ weights[:-1] + weights[-1]
        of_target = (logits * targets).sum()
        over = scipy.special.logsumexp(logits, axis=1) if exclusive else np.logaddexp(0, logits)
        errors = link(logits, axis=1) - targets
        gradient = np.vstack([_C * (features.T @ errors) + weights[:-1], _C * errors.sum(axis=0)])
        penalty = (weights[:-1] ** 2).sum() / 2
        return _C * (over.sum() - of_target) + penalty, gradient.ravel()

    weights = _minimum(loss, shape)
    return link(words.matrix(examples) @ weights[:-1] + weights[-1], axis=1)


def _sigmoid(logits: NDArray, axis: int) -> NDArray:
    return scipy.special.expit(logits)


def _minimum(loss: Callable, shape: tuple[int, int]) -> NDArray:
    options = {"maxiter": _ITERATIONS}
    found = scipy.optimize.minimize(
        loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options
    )
    return found.x.reshape(shape)


def numbers(
    train: Sequence[Texts], targets: NDArray[np.float64], examples: Sequence[Texts]
) -> NDArray[np.float64]:
    """Returns numbers by ridge regression with a penalty of 1, [examples]."""
    train, targets = _some(train, targets)
    words = Words(train)
    mean = targets.mean()
    weights = scipy.sparse.linalg.lsqr(words.matrix(train), targets - mean, damp=1.0)[0]
    return words.matrix(examples) @ weights + mean
