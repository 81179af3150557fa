"""How good is a learned vocabulary beside a published one, and what time and memory does it take?

    python -m benchmarks.vocabulary --input 'wiki/wiki_*' 'novels/*.txt' \\
        --text=wikitext2/wiki.test.tokens --published=bert-base-uncased-vocab.txt
    python -m benchmarks.vocabulary … --published=bert-base-cased-vocab.txt --do_lower_case=False

`beambert vocab`, in a process of its own, learns a vocabulary as large as the published one. Then
both cut the same text, which neither was learned from. Words are those of the original's
BasicTokenizer. The text is cut as it is, and without the artefacts of WikiText.
"""

import os
import re
import resource
import tempfile
import time
from collections.abc import Sequence

from beambert.flags import parse_bool
from benchmarks import measuring


def run_command(paths: list[str], output: str, vocab_size: int, do_lower_case: bool) -> dict:
    """Runs `beambert vocab`; returns its seconds and its peak memory."""
    flags = [f"--vocab_size={vocab_size}", f"--do_lower_case={do_lower_case}"]
    started = time.perf_counter()
    measuring.beambert("vocab", "--input", *paths, f"--output={output}", *flags)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # kilobytes on Linux
    return {"seconds_with_start_up": round(seconds, 1), "peak_megabytes": round(peak / 1024)}


def run_stages(paths: list[str], vocab_size: int, do_lower_case: bool) -> dict[str, float]:
    """Runs the functions of `beambert vocab` without Beam; returns the seconds of each stage."""
    from beambert.console import ProgressTally
    from beambert.pipelines import input_files
    from beambert.pipelines.corpus import reading
    from beambert.pipelines.corpus.base import FilePart
    from beambert.pipelines.corpus.documents import Document
    from beambert.pipelines.vocabulary_learning import graph as word_counts
    from beambert.pipelines.vocabulary_learning import learning

    counter = word_counts.WordCounter(do_lower_case)
    counter.add("warm up")
    counter.take()
    laps = [time.perf_counter()]
    nobody = ProgressTally(None)
    documents = [
        document.text
        for file in input_files.match_inputs(paths)
        for document in reading.read_part(FilePart(file, "auto"), reading.ReadOptions(), nobody)
        if isinstance(document, Document)
    ]
    laps.append(time.perf_counter())
    for text in documents:
        counter.add(text)
    counts = {word.decode(): count for word, count in counter.take().items()}
    laps.append(time.perf_counter())
    words = learning.CorpusWords.of(counts, learning.words_needed(vocab_size))
    characters = learning.choose_characters(words, vocab_size, do_lower_case)
    laps.append(time.perf_counter())
    learning.learn_vocabulary(words, characters, vocab_size, do_lower_case)
    laps.append(time.perf_counter())
    names = ("read", "count", "sum", "learn")
    pairs = zip(names, laps, laps[1:], strict=False)
    return {name: round(end - start, 2) for name, start, end in pairs}


def judge(path: str, texts: dict[str, list[str]], do_lower_case: bool) -> dict[str, dict]:
    """Returns for each text the tokens a word and the [UNK]s a million words with a vocabulary."""
    from beambert.pipelines.tokenizers.vocabulary import UNKNOWN, Vocabulary
    from beambert.pipelines.tokenizers.wordpiece import Tokenizer, word_splitter

    with open(path, "rb") as file:
        vocabulary = Vocabulary.parse(file.read(), path)
    tokenizer, split = Tokenizer(vocabulary, do_lower_case), word_splitter(do_lower_case)
    results = {}
    for name, lines in texts.items():
        ids, _ = tokenizer.tokenize_batch(lines)
        words, unknown = len(split(lines)), int((ids == vocabulary.id_of(UNKNOWN)).sum())
        results[name] = {"words": words, "tokens_a_word": round(len(ids) / words, 4)}
        results[name]["unknown_a_million_words"] = round(1e6 * unknown / words, 1)
    return results


def without_artefacts(lines: list[str]) -> list[str]:
    """Returns lines of WikiText without <unk> for rare words, and with 1,000 for 1 @,@ 000."""
    return [re.sub(r" @(.)@ ", r"\1", line.replace("<unk>", "")) for line in lines]


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: a file is missing, or `beambert vocab` failed.
    """
    parser = measuring.flag_parser("vocabulary", __doc__)
    add = parser.add_argument
    add("--input", nargs="+", required=True, metavar="GLOB", help="corpus to learn from")
    add("--text", required=True, metavar="FILE", help="text to cut")
    add("--published", required=True, metavar="FILE", help="vocab.txt to compare with")
    add(
        "--do_lower_case",
        type=parse_bool,
        default=True,
        help="whether both vocabularies are uncased (default: %(default)s)",
    )
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))
    do_lower_case = flags.do_lower_case
    paths = measuring.files_of("--input", flags.input)
    [published_file] = measuring.files_of("--published", [flags.published])
    [text_file] = measuring.files_of("--text", [flags.text])
    with open(published_file, encoding="utf-8") as file:
        vocab_size = sum(1 for _ in file)
    with open(text_file, encoding="utf-8") as file:
        lines = file.read().split("\n")
    texts = {"as it is": lines, "without artefacts": without_artefacts(lines)}
    with tempfile.TemporaryDirectory() as folder:
        output = f"{folder}/vocab.txt"
        result = {
            "vocab_size": vocab_size,
            "do_lower_case": do_lower_case,
            "corpus_megabytes": round(sum(os.path.getsize(path) for path in paths) / 1e6, 1),
            "command": run_command(paths, output, vocab_size, do_lower_case),
            "stage_seconds": run_stages(paths, vocab_size, do_lower_case),
        }
        ours = judge(output, texts, do_lower_case)
    published = judge(published_file, texts, do_lower_case)
    for name in texts:
        ratio = ours[name]["tokens_a_word"] / published[name]["tokens_a_word"]
        result[name] = {
            "learned": ours[name],
            "published": published[name],
            "tokens_learned_per_published": round(ratio, 4),
        }
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
