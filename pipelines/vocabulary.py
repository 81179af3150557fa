"""Word counts -> a WordPiece vocabulary of exactly the size asked for. Pure."""

from collections.abc import Mapping

from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

from pipelines.errors import InputError
from pipelines.records import SPECIAL_TOKENS, Vocabulary

# The learner stops at the first count threshold whose vocabulary is this near the size wanted;
# the surplus is cut exactly.
SLACK = 0.06
# Words to learn from for each token wanted. Rarer words hardly move the pieces' counts, and the
# learner's time is proportional to their number.
WORDS_PER_TOKEN = 5
MAX_TOKEN_LENGTH = 50
# Share of the tokens that single characters may take, about as in Google's uncased vocabulary
# (997 of 30,522); rarer characters become [UNK].
CHARACTER_SHARE = 1 / 30
# A small vocabulary still holds an alphabet, of no more than a quarter of its tokens: a character
# takes two, one of them to continue a word.
FEWEST_CHARACTERS = 100
# Where the threshold ends up, as multiples of the count of the last word that there is room for:
# 1.55 to 1.6 on Wikipedia for 8,000 and 30,522 tokens. The search starts in the middle.
LOWEST_THRESHOLD, HIGHEST_THRESHOLD = 1.0, 2.2


def learn_vocabulary(word_counts: Mapping[str, int], vocab_size: int) -> Vocabulary:
    """Learns word pieces: the special tokens, single characters, then pieces by frequency.

    Args:
      word_counts: normalized words, as WordPiece will see them, and how often each occurs.
      vocab_size: number of tokens. Where the words give fewer, `[unusedN]` fill it up, as in the
        original vocabularies.

    Returns:
      the vocabulary; the same for the same counts, in whatever order they come.

    Raises:
      InputError: the characters alone need more than `vocab_size` tokens.
    """
    words = sorted(word_counts.items(), key=lambda item: (-item[1], item[0]))
    words = [(word, count) for word, count in words if len(word) <= MAX_TOKEN_LENGTH]
    words = words[: WORDS_PER_TOKEN * vocab_size]
    learned = _learn_slightly_more(words, vocab_size)
    # The learner adds "##" + every character; one that never continues a word is never used.
    continuing = {f"##{character}" for word, _ in words for character in word[1:]}
    pieces = [
        token
        for token in learned
        if token not in SPECIAL_TOKENS
        and (len(token) != 3 or not token.startswith("##") or token in continuing)
    ]
    # A word must always fall apart into characters, so those are never cut.
    characters = [token for token in pieces if len(token.removeprefix("##")) == 1]
    longer = [token for token in pieces if len(token.removeprefix("##")) > 1]
    room = vocab_size - len(SPECIAL_TOKENS) - len(characters)
    if room < 0:
        needed = vocab_size - room
        raise InputError(
            f"--vocab_size={vocab_size}: too small, the text's characters alone need {needed}"
        )
    kept = set(longer[:room]).union(characters)
    tokens = [*SPECIAL_TOKENS, *(token for token in pieces if token in kept)]
    unused = [f"[unused{i}]" for i in range(vocab_size - len(tokens))]
    return Vocabulary((*tokens, *unused))


def _learn_slightly_more(words: list[tuple[str, int]], vocab_size: int) -> list[str]:
    """Runs the learner for up to `SLACK` more tokens than wanted, most frequent first."""
    wanted = int(vocab_size * (1 + SLACK))
    # Every word at least as frequent as the threshold is a token, so the threshold is no lower
    # than the count of the last word that there is room for.
    last_count = words[wanted][1] if len(words) > wanted else 1
    alphabet = min(FEWEST_CHARACTERS, vocab_size // 4)
    return learner.learn(
        words,
        vocab_size=wanted,
        reserved_tokens=list(SPECIAL_TOKENS),
        lower_thresh=int(LOWEST_THRESHOLD * last_count),
        upper_thresh=int(HIGHEST_THRESHOLD * last_count),
        max_token_length=MAX_TOKEN_LENGTH,
        max_unique_chars=max(int(CHARACTER_SHARE * vocab_size), alphabet),
        slack_ratio=SLACK / (1 + SLACK),
    )
