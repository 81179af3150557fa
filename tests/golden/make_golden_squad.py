"""Makes golden/squad.json from the original release's own run_squad.py and SQuAD's own scorers.

    python tests/golden/make_golden_squad.py BERT EVALUATE_V1 EVALUATE_V2

BERT is a clone of google-research/bert; the other two are the official evaluate-v1.1.py and
evaluate-v2.0.py. What they import of TensorFlow 1 is replaced by a stand-in. The text is invented.
"""

import contextlib
import io
import json
import pathlib
import random
import sys
import tempfile
import types
from unittest import mock

from make_golden import GOLDEN, load

PARAMETERS = {"max_seq_length": 32, "doc_stride": 8, "max_query_length": 6}
N_BEST_SIZE, MAX_ANSWER_LENGTH = 5, 4
_TEXT = "the a river un##aff##able caf##es mill##ers road north south 18##95 old bridge of in"
WORDS = _TEXT.split()
_SPECIAL = "[PAD] [UNK] [CLS] [SEP] [MASK] . , ( ) - ; b ##b"
VOCABULARY = [
    *_SPECIAL.split(),
    *dict.fromkeys(
        ("##" if number else "") + piece
        for word in WORDS
        for number, piece in enumerate(word.split("##"))
    ),
]
WHITE_SPACE_OR_NOT = (" ", ", ", ". ", " (", ") ", "-", "; ")


def make_dataset() -> dict:
    """Returns questions of v2.0, each with one answer or none, as the original wants them."""
    generator = random.Random(11)
    paragraphs = []
    for number, size in enumerate((60, 12, 30)):
        words = [generator.choice(WORDS).replace("##", "") for _ in range(size)]
        words = [generator.choice((word, word.capitalize())) for word in words]
        marks = generator.choices(WHITE_SPACE_OR_NOT, weights=(9, 1, 1, 1, 1, 1, 1), k=size)
        context = "".join(word + mark for word, mark in zip(words, marks, strict=True)).strip()
        questions = []
        for place in range(5):
            first = generator.randrange(size - 4)
            start = sum(map(len, (*words[:first], *marks[:first])))
            count = generator.randint(1, 3)
            text = "".join(words[first + i] + marks[first + i] for i in range(count))
            text = text[: len(text) - len(marks[first + count - 1])]
            is_impossible = place == 3
            questions.append(
                {
                    "id": f"q{number}{place}",
                    "question": " ".join(generator.choices(words, k=3 + 2 * place)),
                    "answers": [] if is_impossible else [{"text": text, "answer_start": start}],
                    "is_impossible": is_impossible,
                }
            )
        paragraphs.append({"context": context, "qas": questions})
    return {"version": "v2.0", "data": [{"title": "Invented", "paragraphs": paragraphs}]}


def load_run_squad(bert: pathlib.Path) -> types.ModuleType:
    """Returns the original's module, which keeps its flags in `FLAGS`."""
    tensorflow = mock.MagicMock()
    tensorflow.gfile.Open = tensorflow.gfile.GFile = open
    tensorflow.flags.FLAGS = types.SimpleNamespace(
        version_2_with_negative=True, verbose_logging=False, null_score_diff_threshold=0.0
    )
    tokenization = load(bert, "tokenization", tensorflow=tensorflow)
    names = {"modeling": mock.MagicMock(), "optimization": mock.MagicMock()}
    module = load(bert, "run_squad", tensorflow=tensorflow, tokenization=tokenization, **names)
    ids = {token: number for number, token in enumerate(VOCABULARY)}
    tokenizer = mock.MagicMock()
    pieces = tokenization.WordpieceTokenizer(ids)
    words = tokenization.BasicTokenizer(do_lower_case=True)
    tokenizer.tokenize = lambda text: [p for w in words.tokenize(text) for p in pieces.tokenize(w)]
    tokenizer.convert_tokens_to_ids = lambda tokens: [ids[token] for token in tokens]
    module.tokenizer = tokenizer
    return module


def make_windows(original: types.ModuleType, dataset_file: pathlib.Path) -> tuple[list, list]:
    """Returns the original's questions and windows."""
    examples, windows = original.read_squad_examples(str(dataset_file), True), []
    original.convert_examples_to_features(
        examples, original.tokenizer, **PARAMETERS, is_training=True, output_fn=windows.append
    )
    return examples, windows


def make_predictions(original, examples, windows, logits, folder, is_version_2) -> dict:
    """Returns what the original writes into its files."""
    original.FLAGS.version_2_with_negative = is_version_2
    results = [
        original.RawResult(window.unique_id, *pair)
        for window, pair in zip(windows, logits, strict=True)
    ]
    files = [folder / name for name in ("predictions", "n_best", "null_odds")]
    original.write_predictions(
        examples, windows, results, N_BEST_SIZE, MAX_ANSWER_LENGTH, True, *map(str, files)
    )
    return {file.name: json.loads(file.read_text()) for file in files if file.exists()}


def make_scores(dataset: dict, evaluate_v1: pathlib.Path, evaluate_v2: pathlib.Path) -> dict:
    """Returns random predictions and what the official scorers make of them."""
    scorers = {path: load(path.parent, path.stem) for path in (evaluate_v1, evaluate_v2)}
    v1, v2 = scorers[evaluate_v1], scorers[evaluate_v2]
    generator = random.Random(5)
    # Several answers each, among them some of articles and punctuation only.
    dataset = json.loads(json.dumps(dataset))
    questions = [q for p in dataset["data"][0]["paragraphs"] for q in p["qas"]]
    for question in questions:
        if question["answers"]:
            more = ["The", "a - river!", "Bridge of the old north", "1895", "U.S.", "é"]
            question["answers"] += [{"text": t} for t in generator.sample(more, k=2)]
    texts = [a["text"] for q in questions for a in q["answers"]]
    texts += ["", "", "", "the", " ", "north  BRIDGE", "An old river; an old mill", "us"]
    cases = []
    for _ in range(12):
        predictions = {q["id"]: generator.choice(texts) for q in questions}
        for question in questions:
            if question["answers"] and generator.random() < 0.4:
                predictions[question["id"]] = generator.choice(question["answers"])["text"]
        odds = {name: round(generator.gauss(0, 1), 1) for name in predictions}
        with_answers = [q for q in questions if q["answers"]]
        articles = [{"paragraphs": [{"context": "", "qas": with_answers}]}]
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            found = {"v1": v1.evaluate(articles, predictions)}
            for name in ("v2", "v2_odds"):
                files = {"data": dataset, "predictions": predictions, "odds": odds}
                for file, content in files.items():
                    pathlib.Path(file).write_text(json.dumps(content))
                flags = ["evaluate", "data", "predictions"]
                flags += ["--na-prob-file", "odds"] if name == "v2_odds" else []
                with mock.patch.object(sys, "argv", flags):
                    v2.OPTS = v2.parse_args()
                with contextlib.redirect_stdout(io.StringIO()) as output:
                    v2.main()
                found[name] = json.loads(output.getvalue())
        cases.append({"predictions": predictions, "odds": odds, "scores": found})
    return {"questions": questions, "cases": cases}


def main() -> None:
    """Writes the golden file."""
    bert, evaluate_v1, evaluate_v2 = map(pathlib.Path, sys.argv[1:])
    original, dataset = load_run_squad(bert), make_dataset()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "dataset").write_text(json.dumps(dataset))
        examples, windows = make_windows(original, folder / "dataset")
        generator = random.Random(7)
        # Of one decimal, so that some are equal; padding never wins.
        logits = [
            [
                [round(generator.gauss(0, 2), 1) for _ in window.tokens]
                + [-100.0] * (PARAMETERS["max_seq_length"] - len(window.tokens))
                for _ in range(2)
            ]
            for window in windows
        ]
        rest = examples, windows, logits, folder
        found = {"v2": make_predictions(original, *rest, True)}
        (folder / "null_odds").unlink()
        found["v1"] = make_predictions(original, *rest, False)
    content = {
        "vocabulary": VOCABULARY,
        "parameters": PARAMETERS,
        "n_best_size": N_BEST_SIZE,
        "max_answer_length": MAX_ANSWER_LENGTH,
        "dataset": dataset,
        "windows": [
            {
                "question": examples[window.example_index].qas_id,
                "input_ids": window.input_ids[: len(window.tokens)],
                "segment_ids": window.segment_ids[: len(window.tokens)],
                "answer": [window.start_position, window.end_position],
                "most_context": [p for p, is_max in window.token_is_max_context.items() if is_max],
            }
            for window in windows
        ],
        "logits": logits,
        "predictions": found,
        "scores": make_scores(dataset, evaluate_v1, evaluate_v2),
    }
    (GOLDEN / "squad.json").write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main()
