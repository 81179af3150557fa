"""How well are a language's sentences and words found, and are its pieces the original's?

    python -m benchmarks.languages --trees zh=zh_gsd-ud-dev.conllu ja=ja_gsd-ud-dev.conllu
    python -m benchmarks.languages --trees th=th_tud-ud-test.conllu --original=bert/tokenization.py

`--trees` takes treebanks of Universal Dependencies, in which people have set sentences and words
apart. Sentences are joined to paragraphs as the treebank says, or twenty at a time, and split again
by the rules of English (the default), by sentencex's own for the language, and with ours beside
them, as `--language` does. A sentence is found if both of its ends are. `ends` counts the ends of
sentences with a mark that are missed, and those found that are none. Words are those of the
segmenters. `--original` is tokenization.py of the original release (google-research/bert), whose
pieces are compared line by line with those here, as those of Hugging Face's `tokenizers` are.
"""

import functools
import importlib.util
import pathlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from unittest import mock

from beambert.io import match_inputs
from benchmarks import measuring

# Number of sentences in a paragraph where a treebank has none.
_PARAGRAPH_SENTENCES = 20
# Tokens of the vocabularies that are learned from the texts, for the comparison of pieces.
_VOCAB_SIZE = 3000
_UNSPACED = {"zh", "ja"}
_SEGMENTED = {"zh": ("icu",), "ja": ("icu", "sudachi"), "th": ("icu",)}
# A sentence without one of these marks at its end cannot be told from the next one.
_MARKED = re.compile(r"[.!?…。！？।۔؟:][\"'”’»」』)\]]*$")
_TEXT = re.compile(r"^# text = (.*)$", re.MULTILINE)


def read_trees(path: str) -> Iterator[tuple[bool, str, list[str]]]:
    """Yields whether a sentence begins a paragraph, its text, and its words, of each sentence."""
    for block in pathlib.Path(path).read_text("utf-8").split("\n\n"):
        if not (text := _TEXT.search(block)):
            continue
        words, behind = [], 0
        for line in block.split("\n"):
            number, _, rest = line.partition("\t")
            if first_last := re.fullmatch(r"(\d+)-(\d+)", number):
                behind = int(first_last[2])  # A word that is written as one is several in the tree.
                words.append(rest.split("\t")[0])
            elif number.isdecimal() and int(number) > behind:
                words.append(rest.split("\t")[0])
        yield bool(re.search(r"^# new(par|doc)", block, re.MULTILINE)), text[1].strip(), words


def paragraphs_of(sentences: Sequence[tuple[bool, str, list[str]]]) -> list[list[str]]:
    """Returns the sentences of each paragraph."""
    begins = [begin for begin, _, _ in sentences]
    if not 1 < sum(begins) <= len(begins) / 1.5:
        begins = [number % _PARAGRAPH_SENTENCES == 0 for number in range(len(begins))]
    found: list[list[str]] = []
    for begin, (_, text, _) in zip(begins, sentences, strict=True):
        if begin or not found:
            found.append([])
        found[-1].append(text)
    return found


def spans_of(pieces: Iterable[str]) -> set[tuple[int, int]]:
    """Returns first and last place of each piece, white space not counted."""
    end, found = 0, set()
    for piece in pieces:
        start, end = end, end + len("".join(piece.split()))
        found.add((start, end))
    return found


def f1(pairs: Iterable[tuple[Iterable[str], Iterable[str]]]) -> float:
    """Returns the F1 score in per cent of pieces that are wanted and found, over several texts."""
    right = total = 0
    for wanted, found in pairs:
        wanted_spans, found_spans = spans_of(wanted), spans_of(found)
        right += len(wanted_spans & found_spans)
        total += len(wanted_spans) + len(found_spans)
    return round(200 * right / total, 1)


def measure_sentences(language: str, paragraphs: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Returns the number of sentences, and the F1 score and wrong ends of each way to split."""
    from beambert.pipelines.corpus.documents import Document
    from beambert.pipelines.text import sentences

    between = "" if language in _UNSPACED else " "

    def split(paragraphs: Sequence[Sequence[str]], by: str) -> float:
        texts = [between.join(paragraph) for paragraph in paragraphs]
        splits = [sentences.split_sentences(Document(text), by) for text in texts]
        return f1(zip(paragraphs, splits, strict=True))

    def ends(by: str) -> dict[str, int]:
        counts = dict.fromkeys(("ends", "missed", "false"), 0)
        for paragraph in filter(None, marked):
            wanted = {end for _, end in spans_of(paragraph)}
            pieces = sentences.split_sentences(Document(between.join(paragraph)), by)
            got = {end for _, end in spans_of(pieces)}
            counts["ends"] += len(wanted) - 1
            counts["missed"] += len(wanted - got)
            counts["false"] += len(got - wanted)
        return counts

    marked = [[each for each in some if _MARKED.search(each)] for some in paragraphs]
    found: dict[str, Any] = {"sentences": sum(map(len, paragraphs))}
    found["with_a_mark"] = round(100 * sum(map(len, marked)) / found["sentences"], 1)
    found["default"] = split(paragraphs, "en")
    with (
        mock.patch.object(sentences, "with_stand_ins", lambda text, _: text),
        mock.patch.object(sentences, "split_clauses", lambda text: [text]),
        mock.patch.object(sentences, "_RULES_OF", {}),
        mock.patch.object(sentences, "_stops", lambda _: None),
        mock.patch.object(sentences, "_is_plain_end", lambda *_: True),
    ):
        found["sentencex"] = split(paragraphs, language)
        found["ends_by_sentencex"] = ends(language)
    found["language"] = split(paragraphs, language)
    found["ends"] = ends(language)
    return found


def speed(call: Callable[[], object], texts: Sequence[str]) -> float:
    """Returns the MB/s of processor time in which a call takes texts, the best of five."""
    size, best = sum(len(text.encode()) for text in texts) / 1e6, float("inf")
    for _ in range(5):
        started = time.process_time()
        call()
        best = min(best, time.process_time() - started)
    return round(size / best, 1)


def measure_speed(language: str, paragraphs: Sequence[Sequence[str]]) -> float:
    """Returns the MB/s of splitting a megabyte of text with the rules of its language."""
    from beambert.pipelines.corpus.documents import Document
    from beambert.pipelines.text.sentences import split_sentences

    text = "\n".join(
        ("" if language in _UNSPACED else " ").join(paragraph) for paragraph in paragraphs
    )
    text = "\n".join([text] * (1 + 1_000_000 // len(text.encode())))
    return speed(lambda: split_sentences(Document(text), language), [text])


def measure_words(
    language: str, sentences: Sequence[tuple[bool, str, list[str]]]
) -> dict[str, dict[str, float]]:
    """Returns the F1 score of words and the speed in MB/s of each segmenter of the language."""
    from beambert.pipelines.text.sentences import CONTINUES, mark_words

    found = {}
    texts = [text for _, text, _ in sentences]
    for name in _SEGMENTED.get(language, ()):

        def cut(text: str, name: str = name) -> list[str]:
            codes = mark_words([text], name).tolist()
            starts = [place for place, code in enumerate(codes) if code != CONTINUES] + [len(text)]
            return [text[a:b] for a, b in zip(starts, starts[1:], strict=False)]

        # In other scripts the vocabulary tells of words, so that only these stretches count.
        rate = speed(functools.partial(mark_words, texts, name), texts)
        score = f1((_in_script(words), _in_script(cut(text))) for _, text, words in sentences)
        found[name] = {"f1": score, "megabytes_per_second": rate}
    return found


def _in_script(words: Iterable[str]) -> list[str]:
    """Returns words, those in other scripts in single characters."""
    from beambert.pipelines.text.cleaning import UNSPACED_CHARACTER

    return [
        piece
        for word in words
        for piece in ([word] if UNSPACED_CHARACTER.match(word) else list(word))
    ]


def count_differences(original: str, texts: Sequence[str]) -> dict[str, int]:
    """Returns the numbers of lines, and of those whose pieces differ from the other tokenizers'."""
    from tokenizers.implementations import BertWordPieceTokenizer

    from beambert.pipelines.tokenizers.compiled_pieces import Tokenizer
    from beambert.pipelines.vocabulary_learning import learning
    from beambert.pipelines.vocabulary_learning.graph import WordCounter

    spec = importlib.util.spec_from_file_location("original_tokenization", original)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {"lines": len(texts)}
    for lower in (False, True):
        counter = WordCounter(lower)
        for text in texts:
            counter.add(text)
        words = learning.CorpusWords.of(counter.take(), learning.words_needed(_VOCAB_SIZE))
        characters = learning.choose_characters(words, _VOCAB_SIZE, lower)
        vocabulary = learning.learn_vocabulary(words, characters, _VOCAB_SIZE, lower)
        ids = {token: number for number, token in enumerate(vocabulary.tokens)}
        basic = module.BasicTokenizer(do_lower_case=lower)
        pieces = module.WordpieceTokenizer(vocab=ids)
        fast = BertWordPieceTokenizer(vocab=ids, lowercase=lower)
        tokens, lengths = Tokenizer(vocabulary, lower).tokenize_batch(texts)
        start, case = 0, "uncased" if lower else "cased"
        found |= {f"{case} tokens": len(tokens), f"{case} unknown": 0}
        found |= {f"{case} differ from the original": 0, f"{case} differ from tokenizers": 0}
        for text, length in zip(texts, lengths.tolist(), strict=True):
            mine = tokens[start : start + length].tolist()
            start += length
            theirs = [ids[each] for word in basic.tokenize(text) for each in pieces.tokenize(word)]
            found[f"{case} unknown"] += mine.count(ids["[UNK]"])
            found[f"{case} differ from the original"] += mine != theirs
            others = fast.encode(text, add_special_tokens=False).ids
            found[f"{case} differ from tokenizers"] += mine != others
    return found


def main(argv: Sequence[str]) -> None:
    """Runs the benchmark.

    Raises:
      InputError: a file cannot be found.
    """
    parser = measuring.flag_parser("languages", __doc__)
    parser.add_argument("--trees", nargs="+", required=True, metavar="LANGUAGE=FILE")
    parser.add_argument("--original", metavar="FILE", help="tokenization.py of the original")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(argv)
    if flags.original:
        match_inputs([flags.original], "--original")
    result: dict[str, Any] = {}
    for given in flags.trees:
        language, _, path = given.partition("=")
        match_inputs([path], "--trees")
        sentences = list(read_trees(path))
        paragraphs = paragraphs_of(sentences)
        found = measure_sentences(language, paragraphs)
        found["megabytes_per_second"] = measure_speed(language, paragraphs)
        found["words"] = measure_words(language, sentences)
        if flags.original:
            found["pieces"] = count_differences(flags.original, [text for _, text, _ in sentences])
        result[pathlib.Path(path).stem] = found
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
