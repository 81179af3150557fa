"""What does each filter of the text cost, as a share of the whole job, and what does it find?

    python -m benchmarks.filters --vocab_file=vocab.txt --input 'wiki/*/wiki_*' 'novels/*.txt'
    python -m benchmarks.filters --vocab_file=vocab.txt --input 'wiki/*/wiki_*' \\
        --decontaminate 'squad/dev*.json' 'glue/*/dev.tsv' --sentences de=de_gsd-ud-test.conllu

The job is `beambert data` without Beam on one core, at ten passes (the default), five and one. All
figures are processor time on the same documents. `--sentences` takes trees of Universal
Dependencies, whose real sentences have a known language. What a tree has need not be a sentence:
headings and names stand there, too. A whole sentence has a verb at its root and a mark at its end.
"""

import json
import pathlib
import random
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import measuring

# The default number of passes, that of the measurements of docs/speed.md, and the least.
_PASSES = (10, 5, 1)
# Number of sentences of each language, least number of their characters in each row of the result,
# and number of consecutive ones that stand for a document.
_SENTENCES, _LENGTHS, _DOCUMENT_SENTENCES = 500, (0, 20, 50), 5
_TEXT = re.compile(r"^# text = (.*)$", re.MULTILINE)
# A mark that ends a sentence, with quotation marks and brackets behind it.
_END = re.compile(r"[.!?…][\"'”’»“)\]\s]*\Z")
_WORD = re.compile(r"[^\W_]+")


def seconds_of(call: Callable[[], object], repeats: int) -> float:
    """Returns the least processor time of several calls, in seconds."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


def read_texts(patterns: Sequence[str], most: int) -> list[str]:
    """Returns normalized documents, about as many characters of each file, `most` in all."""
    from beambert.console import ProgressTally
    from beambert.pipelines.corpus.base import FilePart
    from beambert.pipelines.corpus.documents import Document
    from beambert.pipelines.corpus.reading import ReadOptions, read_part
    from beambert.pipelines.input_files import match_inputs
    from beambert.pipelines.text.cleaning import normalize_text

    files, texts = match_inputs(patterns), []
    for file in files:
        size = 0
        for document in read_part(FilePart(file, "auto"), ReadOptions(), ProgressTally(None)):
            if isinstance(document, Document) and document.text.strip():
                texts.append(normalize_text(document.text[: most // len(files)]))
                size += len(texts[-1])
                if size > most / len(files):
                    break
    return texts


def job_seconds(texts: Sequence[str], vocab_file: str, passes: int) -> float:
    """Returns the time of the job without filters and without Beam, in seconds."""
    from collections import Counter

    from beambert.pipelines.corpus.documents import Document
    from beambert.pipelines.pretraining.documents import compact_documents
    from beambert.pipelines.pretraining.instances import (
        DocumentCounts,
        InstanceCounts,
        InstanceParameters,
        build_instances,
        order_documents,
        pair_documents,
    )
    from beambert.pipelines.pretraining.masks import TokenIds
    from beambert.pipelines.records.encoding import encode_examples
    from beambert.pipelines.text.preparation import TextOptions, prepare_documents
    from beambert.pipelines.tokenizers.encoding import make_corpus_tokenizer, tokenize_documents
    from beambert.pipelines.tokenizers.folders import read_given

    vocabulary, lowers = read_given(vocab_file, None, None)
    tokenizer = make_corpus_tokenizer(vocabulary, lowers)
    tokenizer.tokenize_batch(["first"])
    ids, parameters = TokenIds.of(vocabulary), InstanceParameters(dupe_factor=passes)

    def work() -> None:
        given = [Document(text) for text in texts]
        prepared = prepare_documents(given, TextOptions(), Counter())
        tokens, lengths = tokenize_documents(tokenizer, prepared, vocabulary.space_before)
        sentences = [each.sentences for each in prepared]
        documents = compact_documents(sentences, tokens, lengths, len(vocabulary))
        documents = order_documents(documents, ids, DocumentCounts())
        counts = InstanceCounts()
        pairs = pair_documents(documents, parameters, 0, counts)
        for rows in build_instances(documents.tokens, pairs, ids, parameters, 0, counts):
            encode_examples(rows)

    return seconds_of(work, 2)


def filters_of(
    evaluation: Sequence[str],
) -> dict[str, Callable[[Sequence[str]], int]]:
    """Returns name -> function from texts to the number of those that it drops or changes."""
    from beambert.pipelines.pretraining.evaluation_texts import EvaluationTexts
    from beambert.pipelines.text import filters, scrubbing
    from beambert.pipelines.text.preparation import TextSettings

    def dropping(settings: TextSettings) -> Callable[[Sequence[str]], int]:
        return lambda texts: sum(
            filters.drop_reason(one_text, settings) is not None for one_text in texts
        )

    def scrubbing_of(*names: str) -> Callable[[Sequence[str]], int]:
        def count(texts: Sequence[str]) -> int:
            found = (scrubbing.scrub(text, names, scrubbing.DEFAULT_REGIONS)[1] for text in texts)
            return sum(sum(counts.values()) for counts in found)

        return count

    blocklist = tuple(f"w{n} phrase" for n in range(400))
    found = {
        "quality_filter=gopher": dropping(TextSettings(quality_filter="gopher")),
        "keep_languages=en": dropping(TextSettings(keep_languages=("en",))),
        "blocklist": lambda texts: len(filters.blocked(texts, blocklist)),
        **{f"scrub={name}": scrubbing_of(name) for name in scrubbing.PLACEHOLDERS},
        "scrub (all)": scrubbing_of(*scrubbing.PLACEHOLDERS),
    }
    if evaluation:
        texts_of_tests = EvaluationTexts.of(evaluation)
        texts_of_tests.phrases()
        found["decontaminate"] = lambda texts: len(texts_of_tests.find(texts))
    return found


def plainly_shared(texts: Sequence[str], evaluation: Sequence[str]) -> int:
    """Returns the number of texts that share 13 words with evaluation files, by sets of words."""
    from beambert.pipelines.pretraining.evaluation_texts import RUN_WORDS, texts_of

    def runs(text: str) -> set[tuple[str, ...]]:
        words = _WORD.findall(text.lower())
        return {tuple(words[i : i + RUN_WORDS]) for i in range(len(words) - RUN_WORDS + 1)}

    of_tests: set[tuple[str, ...]] = set()
    for path in measuring.files_of("--decontaminate", evaluation):
        for text in texts_of(path, pathlib.Path(path).read_bytes()):
            of_tests |= runs(text)
    return sum(not of_tests.isdisjoint(runs(text)) for text in texts)


def is_whole(tree: str) -> bool:
    """Returns whether a tree is a sentence: with a verb at its root, and a mark at its end."""
    rows = [row.split("\t") for row in tree.split("\n") if row.split("\t")[0].isdigit()]
    roots = [row for row in rows if row[7] == "root"]
    has_verb = any(row[3] in ("VERB", "AUX") for row in roots)
    # The root of "It is late." is the adjective, on which the copula depends.
    numbers = {row[0] for row in roots}
    has_verb |= any(row[6] in numbers and row[7].split(":")[0] == "cop" for row in rows)
    text = _TEXT.search(tree)
    return bool(text and has_verb and _END.search(text[1]))


def measure_languages(files: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Returns shares of real sentences and documents by language.

    Args:
      files: code of the language and path of a file.
    """
    from beambert.pipelines.text.languages import (
        MIN_PROBABILITY,
        language_probability,
    )

    drawn, texts, whole = random.Random(1), {}, {}
    for _, path in files:
        content = pathlib.Path(path).read_text("utf-8")
        found = _TEXT.findall(content)
        texts[path] = [text for text in dict.fromkeys(found) if any(map(str.isalpha, text))]
        trees = [tree for tree in content.split("\n\n") if is_whole(tree)]
        found = [*dict.fromkeys(_TEXT.search(tree)[1] for tree in trees)]
        whole[path] = random.Random(1).sample(found, min(_SENTENCES, len(found)))
    sentences = {
        path: drawn.sample(one_text, min(_SENTENCES, len(one_text)))
        for path, one_text in texts.items()
    }

    languages = sorted({language for language, _ in files})

    def right(those: Sequence[str], language: str) -> float:
        likeliest = (
            max(languages, key=lambda code: language_probability(text, [code])) for text in those
        )
        return round(sum(code == language for code in likeliest) / max(1, len(those)), 4)

    def kept(those: Sequence[str], language: str) -> float:
        are_kept = (language_probability(text, [language]) >= MIN_PROBABILITY for text in those)
        return round(sum(are_kept) / max(1, len(those)), 4)

    result = {}
    for language, path in files:
        others = [t for other, at in files if other != language for t in sentences[at][:100]]
        step = _DOCUMENT_SENTENCES
        documents = [
            " ".join(texts[path][i : i + step]) for i in range(0, len(texts[path]) - step, step)
        ]
        by_length = {
            f"right among these languages, of {least} characters or more": right(
                [text for text in sentences[path] if len(text) >= least], language
            )
            for least in _LENGTHS
        }
        result[f"{language}: {pathlib.Path(path).name}"] = by_length | {
            "right of whole sentences": right(whole[path], language),
            "whole sentences": len(whole[path]),
            f"kept of documents of {step} sentences": kept(documents, language),
            "kept of sentences in others": kept(others, language),
        }
    return result


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: a file is missing or cannot be used.
    """
    parser = measuring.flag_parser("filters", __doc__)
    add = parser.add_argument
    add("--input", nargs="+", required=True, metavar="GLOB", help="text to filter")
    add("--vocab_file", required=True, metavar="FILE", help="vocabulary of the job")
    add("--decontaminate", nargs="+", default=[], metavar="GLOB", help="evaluation files")
    add(
        "--sentences",
        nargs="+",
        default=[],
        metavar="CODE=FILE",
        help="trees of Universal Dependencies in a language",
    )
    add("--megabytes", type=float, default=16, help="text to read (default: %(default)s)")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))
    texts = read_texts(flags.input, int(flags.megabytes * 1e6))
    megabytes = sum(map(len, texts)) / 1e6
    jobs = {passes: job_seconds(texts, flags.vocab_file, passes) for passes in _PASSES}
    rows = {}
    for name, call in filters_of(flags.decontaminate).items():
        seconds = seconds_of(lambda call=call: in_batches(call, texts), 3)
        rows[name] = {
            "found": in_batches(call, texts),
            "milliseconds_per_megabyte": round(1000 * seconds / megabytes, 1),
            **{f"share_of_the_job_at_{n}_passes": round(seconds / jobs[n], 4) for n in jobs},
        }
    result: dict[str, Any] = {
        "megabytes": round(megabytes, 1),
        "documents": len(texts),
        "job_megabytes_per_second": {n: round(megabytes / s, 2) for n, s in jobs.items()},
        "filters": rows,
    }
    if flags.decontaminate:
        result["decontaminate_by_sets_of_words"] = plainly_shared(texts, flags.decontaminate)
    if flags.sentences:
        pairs = [tuple(given.split("=", 1)) for given in flags.sentences]
        result["languages"] = measure_languages(pairs)
    result = json.loads(json.dumps(result))  # As the file has it: names are text.
    print(measuring.write_results(flags.results, parser, argv, result))


def in_batches(call: Callable[[Sequence[str]], int], texts: Sequence[str]) -> int:
    """Returns the sum of a function over texts, which it gets a megabyte at a time."""
    total, batch, size = 0, [], 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= 1 << 20:
            total, batch, size = total + call(batch), [], 0
    return total + call(batch)


if __name__ == "__main__":
    measuring.run(main)
