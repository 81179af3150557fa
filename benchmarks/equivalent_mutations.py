"""The modules that `mutations` changes, their tests, and the changes that no test can notice."""

# Module -> its test files.
TESTS = {
    "pipelines/instances/pairs": [
        "tests/pipelines/instances/test_pairs.py",
        "tests/pipelines/instances/test_reference.py",
        "tests/pipelines/instances/test_sentence_order.py",
    ],
    "pipelines/instances/copies": ["tests/pipelines/instances/test_copies.py"],
    "pipelines/instances/masking": [
        "tests/pipelines/instances/test_masking.py",
        "tests/pipelines/instances/test_reference.py",
    ],
    "pipelines/instances/packing": ["tests/pipelines/instances/test_packing.py"],
    "pipelines/instances/building": ["tests/pipelines/instances/test_building.py"],
    "pipelines/instances/compact_documents": ["tests/pipelines/instances/test_building.py"],
    "pipelines/text/filters": ["tests/pipelines/text/test_filters.py"],
    "pipelines/text/cleaning": ["tests/pipelines/text/test_cleaning.py"],
    "pipelines/tasks/metrics": ["tests/pipelines/tasks/test_metrics.py"],
    "pipelines/tasks/entities": ["tests/pipelines/tasks/test_entities.py"],
    "pipelines/tasks/squad_scoring": ["tests/pipelines/tasks/test_squad_scoring.py"],
    "pipelines/evaluation/blessing": ["tests/pipelines/evaluation/test_blessing.py"],
    "pipelines/evaluation/intervals": ["tests/pipelines/evaluation/test_intervals.py"],
    "pipelines/evaluation/outcomes": ["tests/pipelines/evaluation/test_outcomes.py"],
    "pipelines/records/statistics": ["tests/pipelines/records/test_statistics.py"],
    "pipelines/records/figures": ["tests/pipelines/records/test_figures.py"],
    "pipelines/corpus/gutenberg": ["tests/pipelines/corpus/test_gutenberg.py"],
    "pipelines/vocabulary_learning/learning": [
        "tests/pipelines/vocabulary_learning/test_learning.py"
    ],
    "trainer/loop/optimization": ["tests/trainer/loop/test_optimization.py"],
    "trainer/loop/schedule": ["tests/trainer/loop/test_schedule.py"],
    "trainer/pretraining/dealing": ["tests/trainer/pretraining/test_dealing.py"],
}

# Module -> change, as `mutations` prints it -> the reason why no test can notice it.
# ruff: noqa: E501
EQUIVALENT: dict[str, dict[str, str]] = {
    "pipelines/instances/pairs": {
        "is_next: int = 0 -> is_next: int = 1": "It is set, not added to.",
        "-1 -> -2 #2": "numpy takes any negative size for the rest.",
        "draw() < share -> draw() <= share": "No draw of 53 bits equals the share.",
        "random.random() < short_seq_prob -> random.random() <= short_seq_prob": "No draw of 53 bits equals the share.",
        "sentences <= BALANCE_HORIZON -> sentences < BALANCE_HORIZON": "The number of sentences that makes a document long is a choice; 100 and 101 are as good.",
    },
    "pipelines/instances/copies": {
        "random.random() < 0.5 -> random.random() <= 0.5": "No draw of 53 bits equals the share.",
        "random.random() < 0.5 -> random.random() >= 0.5": "Half of the copies either way.",
        "-1 -> -2": "numpy takes any negative size for the rest.",
        "random.random(len(pairs)) < 0.5 -> random.random(len(pairs)) <= 0.5": "No draw of 53 bits equals the share.",
        "random.random(len(pairs)) < 0.5 -> random.random(len(pairs)) >= 0.5": "Half of the pairs either way.",
        "random.integers(0, len(tokens), len(chosen)) -> random.integers(1, len(tokens), len(chosen))": "The first token of a shard is one of very many.",
        "random.random(len(chosen)) < REPLACED_TOKENS -> random.random(len(chosen)) <= REPLACED_TOKENS": "No draw of 53 bits equals the share.",
        "-1 -> +1 #2": "Any number but 0 marks the start of the first row.",
        "-1 -> -2 #2": "Any number but 0 marks the start of the first row.",
        "np.arange(words) + _MOST_MOVED * random.random(words) -> np.arange(words) - _MOST_MOVED * random.random(words)": "The draws are symmetric.",
        "roll >= DROPPED_WORDS -> roll > DROPPED_WORDS": "No draw of 53 bits equals the share.",
    },
    "pipelines/instances/masking": {
        "roll_NS < MASK_SHARE + RANDOM_SHARE -> roll_NS >= MASK_SHARE + RANDOM_SHARE": "A tenth of the tokens either way.",
        "random.integers(0, 1 << 32, (rows, length), np.uint32) -> random.integers(1, 1 << 32, (rows, length), np.uint32)": "One draw in 2^32 is 0.",
        "length - fixed_NL.sum(axis=1) -> length + fixed_NL.sum(axis=1)": "Positions that may not be chosen come last and are left out.",
        "roll_NS < MASK_SHARE -> roll_NS <= MASK_SHARE": "One roll in 2^24 equals the share.",
        "roll_NS < MASK_SHARE + RANDOM_SHARE -> roll_NS <= MASK_SHARE + RANDOM_SHARE": "One roll in 2^24 equals the share.",
        "(key_NW != 4294967295).sum(axis=1).max(initial=0) -> (key_NW != 4294967295).sum(axis=1).max(initial=1)": "A round without words chooses no token.",
    },
    "pipelines/instances/building": {
        "2 ** 31 - 8 -> 2 ** 31 - 9": "A margin below what 32 bits hold.",
        "-1 -> -2": "numpy takes any negative size for the rest.",
        "ROWS_AT_A_TIME = 8192 -> ROWS_AT_A_TIME = 8193": "A choice for speed.",
    },
    "pipelines/instances/compact_documents": {
        "hashes.view('<u8')[1::2] < np.uint64(eval_fraction * 2 ** 64) -> hashes.view('<u8')[1::2] <= np.uint64(eval_fraction * 2 ** 64)": "No hash of 64 bits equals the bound.",
    },
    "pipelines/text/filters": {
        "np.uint64(11400714819323198485) -> np.uint64(11400714819323198486)": "Hashes of short n-grams lose a few of 64 bits; the further collisions are too rare to see.",
        "sizes.max(initial=1) -> sizes.max(initial=2)": "An n-gram has at least two characters.",
        "return 0 -> return 1": "One character is below every limit.",
        "return 0 -> return 1 #2": "One character is below every limit.",
        "(starts[n:] - starts[:-n]).max(initial=0) -> (starts[n:] - starts[:-n]).max(initial=1)": "Without n-grams nothing is counted.",
        "repeated <= least -> repeated < least": "A short cut: longer n-grams do not repeat more often.",
        "np.count_nonzero(ordered[1:] == ordered[:-1]) * longest <= enough -> np.count_nonzero(ordered[1:] == ordered[:-1]) * longest < enough": "A short cut: the count itself is within the limit too.",
        "len(spaced) - len(odd) < limits.min_alphabetic_words * len(spaced) -> len(spaced) - len(odd) <= limits.min_alphabetic_words * len(spaced)": "A short cut: the step after it looks closer.",
        "min((share for _, share in limits.max_repeated_ngrams)) * characters -> min((share for _, share in limits.max_repeated_ngrams)) / characters": "A short cut, taken less often.",
        "starts[n:] - starts[:-n] -> starts[n:] + starts[:-n] #2": "A short cut, taken less often.",
    },
    "pipelines/text/cleaning": {
        "text.isascii() or not UNSPACED_CHARACTER.search(text) -> text.isascii() and (not UNSPACED_CHARACTER.search(text))": "A short cut: without it the regular expression finds the same words.",
    },
    "pipelines/tasks/entities": {
        "(0, None) -> (1, None)": "The start is used only inside an entity, which has set it.",
    },
    "pipelines/evaluation/blessing": {
        "min_change > 0 -> min_change >= 0": "It is not 0 there.",
    },
    "pipelines/evaluation/intervals": {
        "_SEED = 1 -> _SEED = 2": "Any seed is as good.",
        "_ROWS_TO_DRAW = 10000000 -> _ROWS_TO_DRAW = 10000001": "A choice between time and steadiness.",
    },
    "pipelines/evaluation/outcomes": {
        "1 if metrics.METRICS[name].greater_is_better else -1 -> 2 if metrics.METRICS[name].greater_is_better else -1": "Only the sign counts.",
        "-1 -> -2": "Only the sign counts.",
    },
    "pipelines/records/figures": {
        "max(tokens, 1) -> max(tokens, 2)": "One token is unknown or not: half of 1 is above the limit too.",
        "abs(shares[name] - HIDDEN_AS[name]) <= bounds[name] -> abs(shares[name] - HIDDEN_AS[name]) < bounds[name]": "The bound has an irrational part, so no share equals it.",
    },
    "pipelines/vocabulary_learning/learning": {
        "WORDS_PER_TOKEN = 3 -> WORDS_PER_TOKEN = 4": "A choice between time and quality.",
        "MORE_WORDS = 20000 -> MORE_WORDS = 20001": "A choice between time and quality.",
    },
    "trainer/loop/optimization": {
        "tf.function(_update, jit_compile=is_compiled, reduce_retracing=True, autograph=False) -> tf.function(_update, jit_compile=is_compiled, reduce_retracing=True, autograph=True)": "The function has no Python control flow on tensors.",
        "strategy.extended.update(variable, self._update_one, args=(mean, variance, gradient, step), kwargs={'decays': decays}, group=False) -> strategy.extended.update(variable, self._update_one, args=(mean, variance, gradient, step), kwargs={'decays': decays}, group=True)": "It shapes what the call returns, which nobody uses.",
        "context.num_replicas_in_sync > 1 -> context.num_replicas_in_sync >= 1": "The sum over one replica is its own value.",
    },
    "trainer/pretraining/dealing": {
        "(0,) -> (1,)": "A single share is not shifted.",
        "tf.range(batches) + shifts -> tf.range(batches) - shifts": "Piles shifted to the other side are as far apart.",
        "tf.argsort(-tf.transpose(tf.reshape(lengths, [-1, count])), stable=True) -> tf.argsort(-tf.transpose(tf.reshape(lengths, [-1, count])), stable=False)": "TensorFlow sorts stably in any case.",
        "tf.argsort(-tf.gather(lengths, rows), stable=True) -> tf.argsort(-tf.gather(lengths, rows), stable=False)": "TensorFlow sorts stably in any case.",
        "def deal(features: dict[str, tf.Tensor], batches: int, parts: int, shares: Sequence[int]=(0,), all_shares: int=1) -> dict[str, tf.Tensor]: -> def deal(features: dict[str, tf.Tensor], batches: int, parts: int, shares: Sequence[int]=(0,), all_shares: int=2) -> dict[str, tf.Tensor]:": "A single share is not shifted.",
    },
    "pipelines/tasks/squad_scoring": {
        "prediction and truth -> prediction or truth": "Without a word on one side the F1 is 0 either way.",
    },
}
