"""Text -> WordPiece ids, as one TensorFlow graph, for exported models.

The ids equal those of `word_pieces` and of the original release, with one difference: TensorFlow
has the tables of Unicode 13. It does not lower the few capitals that were added later (Vithkuqi,
and five letters of Latin and Glagolitic).
"""

import tensorflow as tf
import tensorflow_text as tf_text

from beambert.pipelines.tokenizers.vocabulary import UNKNOWN, Vocabulary

# tokenization.py, BasicTokenizer._clean_text: NUL, U+FFFD and the control and format characters
# (general categories Cc and Cf) are dropped; tab, line feed and carriage return are white space.
_DROPPED = r"[\x00\x{FFFD}\x01-\x08\x0B\x0C\x0E-\x1F\x7F-\x{9F}\p{Cf}]"
_ACCENTS = r"\p{Mn}"
# BasicTokenizer._is_chinese_char: each such character is a word.
_CHINESE = (
    r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}]"
)
# tokenization.py, _is_punctuation: ASCII characters other than letters, digits and spaces are
# punctuation.
_PUNCTUATION = r"[!-/:-@\[-`{-~\p{P}]"
# Python's str.split also splits at line and paragraph separators.
_SEPARATORS = r"[\p{Zs}\x{2028}\x{2029}]"
# The characters of words in text whose punctuation and separators have spaces around them.
_OF_WORD = r"[^\s!-/:-@\[-`{-~]"
# No vocabulary holds this character, so a word of it becomes [UNK].
_NONCHARACTER = "\uffff"


def normalize(text: tf.Tensor, do_lower_case: bool) -> tf.Tensor:
    """Cleans strings as the original's BasicTokenizer does before it splits them.

    Args:
      text: string [n], UTF-8.
      do_lower_case: lower the case and strip the accents, as uncased vocabularies need it.

    Returns:
      string [n], without control characters, and with spaces around Chinese characters.
    """
    text = tf.strings.regex_replace(text, _DROPPED, "")
    text = tf.strings.regex_replace(text, _CHINESE, r" \0 ")
    if do_lower_case:
        text = tf.strings.lower(text, encoding="utf-8")
        text = tf_text.normalize_utf8(text, "NFD")
        text = tf.strings.regex_replace(text, _ACCENTS, "")
    return text


class Tokenizer(tf.Module):
    """WordPiece over batches of strings; trackable, so that a SavedModel can hold it."""

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool):
        """Builds the tokenizer's automaton (0.3 s for 30,522 tokens)."""
        super().__init__()
        self.do_lower_case = do_lower_case
        # Matches words that are too long, and other text that may hold such a word.
        self._long_word = f"{_OF_WORD}{{{vocabulary.longest_word + 1},}}"
        self._word_pieces = tf_text.FastWordpieceTokenizer(
            # A NUL would end the token for the library, and no cleaned text has one.
            vocab=[
                f"[unused-{number}]" if "\0" in token else token
                for number, token in enumerate(vocabulary.tokens)
            ],
            suffix_indicator="##",
            # It counts bytes; a character has up to 4.
            max_bytes_per_word=4 * vocabulary.longest_word,
            token_out_type=tf.int32,
            unknown_token=UNKNOWN,
        )

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of strings [n] in UTF-8 as a ragged [n, (tokens)] int32 tensor."""
        text = normalize(text, self.do_lower_case)
        # The fast tokenizer splits words by itself, except at rare separators and in very long
        # words. Looking for those in a batch costs less than always splitting it here.
        rare = rf"(?s).*(?:[\x{{2028}}\x{{2029}}]|{self._long_word}).*"
        is_rare = tf.reduce_any(tf.strings.regex_full_match(text, rare))

        def split() -> tf.Tensor:
            words = tf.strings.regex_replace(text, _PUNCTUATION, r" \0 ")
            words = tf.strings.regex_replace(words, _SEPARATORS, " ")
            return tf.strings.regex_replace(words, self._long_word, _NONCHARACTER)

        return self._word_pieces.tokenize(tf.cond(is_rare, split, lambda: text))
