"""Makes the golden files of this folder from the original release's own code.

    python tests/golden/make_golden.py PATH_OF_A_CLONE_OF_google-research/bert

reads its `tokenization.py` and `create_pretraining_data.py` (TensorFlow 1, which they use for files
and flags, is replaced by a stand-in) and writes
  golden/tokenization.json       nasty texts and the pieces that the original cuts them into
  golden/pairs.json              the statistics of the original's pairs of synthetic corpora
  golden/masks.json              the statistics of the original's masks of synthetic rows
"""

import collections
import json
import pathlib
import random
import sys
import types

GOLDEN = pathlib.Path(__file__).parent

VOCABULARY_TEXT = """
[PAD] [UNK] [CLS] [SEP] [MASK] the un ##aff ##able cafe café Café resume naive i ##i I ##I straße
strasse ##ss ##e ##é ##\u0301 e\u0301 ##a ##b ##c a b c A ##A x ##x 
. , ! ? - ' " ( ) [ ] $ ^ ` ~ @ # % & * … — « » 。 、
中 文 國 日 本 語 ##語 か ##な カ ##タ 한
##국 ο ##δ ##ος ##οσ οδος οδοσ Ο σ ς Σ 😀 👩 👧 ##😀 1 ##2 ##3 ² ½
ﬁ fi ไ ##ท ##ย ก ##ก
don t pe ##ter hello Hello HELLO world ##ing ##s
"""

TEXTS = [
    "",
    " \t\r\n ",
    "unaffable",
    "The unaffable café, naïve résumé!",
    "Cafe\u0301 CAFÉ Café",
    "e\u0301\u0302\u0327 a\u030a\u0301b",
    "\u0301\u0302",
    "a\u0301\u0308\u0301c",
    "中文字國 abc中bc 日本語かなカタ",
    "\uf900\u2f800\U0002f800\U00020000x",
    "한국 한국 \u1112\u1161\u11ab",
    "ΟΔΟΣ ΟΔΟΣ. ΟΔΟΣΟ Σ ΑΣ ΣΣ ὈΔΟΣ",
    "İstanbul ISTANBUL ıi İ I\u0307",
    "ẞ Straße STRASSE ß",
    "ﬁ ² ½ … ™ Ⅳ ⅷ",
    "😀 a😀b 👩\u200d👧 👩🏽 \U0001f1e9\U0001f1ea",
    "a\u200bb a\u200db a\u00adb a\u2060b \ufeffa",
    "a\x00b a\ufffdb a\x01b a\x7fb a\x85b a\x0bb a\x0cb a\x1cb a\x1fb",
    "a\u00a0b a\u1680b a\u2003b a\u202fb a\u205fb a\u3000b",
    "a\u2028b a\u2029b \u2028",
    "a\tb\rc\nd",
    "don't peter's -- [MASK] [unused1] ##ing",
    "$1,234.50 1^2 `x` ~a @b #c %d &e *f",
    "«a» “b” ‘c’ —d— a。b、c！",
    "؟a\u060cb ۔ \u0964 \u104a",
    "a" * 200,
    "a" * 201,
    "x" * 199 + "é",
    "e\u0301" * 150,
    "ก" * 200,
    "ก" * 201,
    "ab" * 60 + "." + "ab" * 60,
    "ab" * 101 + ".b",
    "ไทย ก\u0e31ก",
    "अ\u093eआ\u0902 क\u094dक\u093f",
    "\u0344 \u0958 \u0374 \u037e \u2126 \u212a",
    "Ǆ ǅ Ω K Å",
    "ʼn ǰ ΐ",
    "\U0001d400 \U0001f170 \u24b6",
    "א\u05b7ב \u202eabc\u202c",
    "\u0600a \u06dd \u070f \u180e \U000e0041",
    "hello HELLO Hello\tworld\u3000worlds",
    "\U00011234 \ua9b3 a\u0488b a\u20ddb",
    *(
        "".join(random.Random(seed).choices("aAéÉσΣİ中.'\u00a0\u0301\u200d😀ก \n$", k=30))
        for seed in range(40)
    ),
]

PAIR_CORPORA = {
    # Documents' numbers of sentences and sentences' numbers of tokens, as ranges to draw from.
    "wiki_like": {"documents": 600, "sentences": (1, 14), "tokens": (5, 60)},
    "book_like": {"documents": 20, "sentences": (300, 500), "tokens": (3, 40)},
    "short_documents": {"documents": 1500, "sentences": (1, 5), "tokens": (5, 45)},
    "one_sentence_documents": {"documents": 1000, "sentences": (1, 1), "tokens": (5, 60)},
    # So few that the original takes a "random next" B from A's own document.
    "two_documents": {"documents": 2, "sentences": (300, 300), "tokens": (5, 60)},
    "one_document": {"documents": 1, "sentences": (200, 200), "tokens": (5, 60)},
}
MAX_SEQ_LENGTH, SHORT_SEQ_PROB, PASSES = 128, 0.1, 20
# Tokens of a bin of the histogram of lengths.
BIN = 8

MASK_VOCABULARY = (
    *("[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *(f"w{i}" for i in range(20)),
    *(f"##p{i}" for i in range(12)),
)
MASK_ROWS, MASK_PASSES, MAX_PREDICTIONS = 400, 10, 10


def make_corpus(documents, sentences, tokens):
    """Returns each document's sentence lengths, the same on every machine."""
    generator = random.Random(f"{documents} {sentences} {tokens}")
    return [
        [generator.randint(*tokens) for _ in range(generator.randint(*sentences))]
        for _ in range(documents)
    ]


def load(folder, name, **stand_ins):
    """Runs one of the original's files with stand-ins for what it imports."""
    module = types.ModuleType(name)
    saved = {key: sys.modules.get(key) for key in stand_ins}
    sys.modules.update(stand_ins)
    try:
        exec(compile((folder / f"{name}.py").read_text(), name, "exec"), module.__dict__)
    finally:
        for key, value in saved.items():
            if value is None:
                del sys.modules[key]
            else:
                sys.modules[key] = value
    return module


def make_tokenization(tokenization):
    """Returns the pieces of every text, with and without lower-casing."""
    vocabulary = list(dict.fromkeys(VOCABULARY_TEXT.split()))
    pieces = tokenization.WordpieceTokenizer({token: i for i, token in enumerate(vocabulary)})
    cases = []
    for text in TEXTS:
        case = {"text": text}
        for key, lower in (("uncased", True), ("cased", False)):
            words = tokenization.BasicTokenizer(do_lower_case=lower).tokenize(text)
            case[key] = {"words": words, "pieces": [p for w in words for p in pieces.tokenize(w)]}
        cases.append(case)
    return {"vocabulary": vocabulary, "cases": cases}


def make_pairs(original):
    """Returns, for every corpus, the statistics of the original's pairs, pass by pass."""
    unmasked = []
    create_predictions = original.create_masked_lm_predictions

    def remember(tokens, *rest):
        unmasked.append(list(tokens))
        return create_predictions(tokens, *rest)

    original.create_masked_lm_predictions = remember
    found = {}
    for name, shape in PAIR_CORPORA.items():
        corpus = [
            [[f"{d}"] * length for length in lengths]
            for d, lengths in enumerate(make_corpus(**shape))
        ]
        passes, lengths = [], []
        for seed in range(PASSES):
            generator = random.Random(seed)
            counts = collections.Counter()
            histogram = [0] * (MAX_SEQ_LENGTH // BIN + 1)
            for index in range(len(corpus)):
                unmasked.clear()
                instances = original.create_instances_from_document(
                    corpus, index, MAX_SEQ_LENGTH, SHORT_SEQ_PROB, 0.15, 20, ["x"], generator
                )
                for instance, tokens in zip(instances, unmasked, strict=True):
                    counts["pairs"] += 1
                    counts["random_next"] += instance.is_random_next
                    counts["filled"] += len(instance.tokens)
                    counts["predictions"] += len(instance.masked_lm_labels)
                    counts["from_own_document"] += instance.is_random_next and (
                        tokens[-2] == f"{index}"  # the last of B, before [SEP]
                    )
                    histogram[len(tokens) // BIN] += 1
            passes.append(counts)
            lengths.append(histogram)
        found[name] = {key: [counts[key] for counts in passes] for key in passes[0]}
        found[name]["lengths"] = lengths
    original.create_masked_lm_predictions = create_predictions
    return found


def make_mask_rows():
    """Returns rows of tokens as they are before masking, the same on every machine."""
    generator = random.Random(4)
    words = [token for token in MASK_VOCABULARY if token.startswith("w")]
    pieces = [*words, *(token for token in MASK_VOCABULARY if token[0] == "#"), "[UNK]", "[UNK]"]

    def segment():
        return [generator.choice(words), *generator.choices(pieces, k=generator.randint(0, 29))]

    return [["[CLS]", *segment(), "[SEP]", *segment(), "[SEP]"] for _ in range(MASK_ROWS)]


def make_masks(original):
    """Returns the statistics of the original's masks, pass by pass, of tokens and whole words."""
    rows, found = make_mask_rows(), {}
    for kind, is_whole in (("tokens", False), ("words", True)):
        original.FLAGS.do_whole_word_mask = is_whole
        passes, replacements = [], collections.Counter()
        for seed in range(MASK_PASSES):
            generator, counts = random.Random(seed), collections.Counter()
            for row in rows:
                shown, positions, labels = original.create_masked_lm_predictions(
                    row, 0.15, MAX_PREDICTIONS, list(MASK_VOCABULARY), generator
                )
                for position, label in zip(positions, labels, strict=True):
                    token = shown[position]
                    counts["predictions"] += 1
                    counts["unknown"] += label == "[UNK]"
                    counts["continuations"] += label.startswith("##")
                    counts["masked"] += token == "[MASK]"
                    counts["kept"] += token == label
                    if token not in ("[MASK]", label):
                        replacements[token] += 1
            passes.append(counts)
        found[kind] = {key: [counts[key] for counts in passes] for key in passes[0]}
        found[kind]["replacements"] = [replacements[token] for token in MASK_VOCABULARY]
    original.FLAGS.do_whole_word_mask = False
    return found


def main():
    """Writes the golden files."""
    folder = pathlib.Path(sys.argv[1])
    tensorflow = types.ModuleType("tensorflow")
    tensorflow.flags = types.SimpleNamespace(
        FLAGS=types.SimpleNamespace(do_whole_word_mask=False),
        **dict.fromkeys(
            ("DEFINE_string", "DEFINE_bool", "DEFINE_integer", "DEFINE_float"), lambda *_: None
        ),
    )
    tokenization = load(folder, "tokenization", tensorflow=tensorflow)
    original = load(
        folder, "create_pretraining_data", tensorflow=tensorflow, tokenization=tokenization
    )
    GOLDEN.mkdir(exist_ok=True)
    for name, content in (
        ("tokenization", make_tokenization(tokenization)),
        ("pairs", make_pairs(original)),
        ("masks", make_masks(original)),
    ):
        text = json.dumps(content)
        (GOLDEN / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
