"""Makes golden/original.tfrecord with the original release's own code, and what is in it.

    python tests/golden/make_golden_records.py PATH_OF_A_CLONE_OF_google-research/bert

The original's instances are written by its own writer (TensorFlow 1's interface is still in
TensorFlow 2). What golden/original.json says of them is counted from its instances, in plain
Python, before they become records.
"""

import collections
import json
import pathlib
import random
import sys
import tempfile

import tensorflow.compat.v1 as tensorflow

GOLDEN = pathlib.Path(__file__).parent
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]", "."),
    *(f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrs"),
    *(f"##{a}{b}" for a in "bdfgk" for b in "aeiou"),
]
MAX_SEQ_LENGTH, MAX_PREDICTIONS_PER_SEQ = 32, 5


def make_text(generator):
    """Returns documents of invented sentences; a few words are unknown."""
    words = [token for token in VOCABULARY[8:] if not token.startswith("##")]
    endings = ["", "", *(t.removeprefix("##") for t in VOCABULARY if t.startswith("##"))]
    documents = []
    for _ in range(20):
        sentences = [
            " ".join(
                "qqq" if generator.random() < 0.03 else generator.choice(words) + ending
                for ending in generator.choices(endings, k=generator.randint(3, 12))
            )
            for _ in range(generator.randint(1, 9))
        ]
        documents.append("".join(f"{sentence} .\n" for sentence in sentences))
    return "\n".join(documents)


def count(instances):
    """Returns what verification must find."""
    found = collections.Counter()
    histograms = collections.defaultdict(collections.Counter)
    for instance in instances:
        tokens, a_length = instance.tokens, instance.segment_ids.count(0)
        found["random_next"] += instance.is_random_next
        histograms["filled"][len(tokens)] += 1
        histograms["predictions"][len(instance.masked_lm_labels)] += 1
        histograms["a_tokens"][a_length - 2] += 1
        histograms["b_tokens"][len(tokens) - a_length - 1] += 1
        restored = list(tokens)
        for position, label in zip(
            instance.masked_lm_positions, instance.masked_lm_labels, strict=True
        ):
            histograms["mask_positions"][position] += 1
            hidden = tokens[position]
            is_same, is_mask = hidden == label, hidden == "[MASK]"
            found[f"hidden_as_{'same' if is_same else 'mask' if is_mask else 'other'}"] += 1
            reserved = hidden.startswith("[") and not is_same and not is_mask
            found["reserved_replacements"] += reserved
            restored[position] = label
        found["unknown_tokens"] += restored.count("[UNK]")
    return {**found, "instances": len(instances), "histograms": histograms}


def main():
    """Writes the golden files."""
    sys.modules["tensorflow"] = tensorflow
    sys.path.insert(0, sys.argv[1])
    import create_pretraining_data as original
    import tokenization

    with tempfile.TemporaryDirectory() as folder:
        vocab_file, text_file = pathlib.Path(folder, "vocab.txt"), pathlib.Path(folder, "text.txt")
        vocab_file.write_text("".join(f"{token}\n" for token in VOCABULARY))
        text_file.write_text(make_text(random.Random(1)))
        tensorflow.flags.FLAGS(["", "--input_file=", "--output_file=", "--vocab_file="])
        tokenizer = tokenization.FullTokenizer(str(vocab_file), do_lower_case=True)
        instances = original.create_training_instances(
            [str(text_file)], tokenizer, MAX_SEQ_LENGTH, 2, 0.1, 0.15,
            MAX_PREDICTIONS_PER_SEQ, random.Random(12345),
        )  # fmt: skip
        original.write_instance_to_example_files(
            instances, tokenizer, MAX_SEQ_LENGTH, MAX_PREDICTIONS_PER_SEQ,
            [str(GOLDEN / "original.tfrecord")],
        )  # fmt: skip
    content = {"vocabulary": VOCABULARY, **count(instances)}
    (GOLDEN / "original.json").write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main()
