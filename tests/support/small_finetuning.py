"""A small task whose labels one word gives away, and the flags that fine-tune on it."""

import json
import pathlib

import numpy as np

HAPPY, SAD, NEUTRAL = ("river", "city"), ("war", "died"), ("the", "a", "house", "year", "people")


def write_task(folder: pathlib.Path, pairs: bool, seed: int = 8) -> pathlib.Path:
    """A word gives each label away; in pairs the second text has it, and three labels are there."""
    random = np.random.default_rng(seed)
    folder.mkdir()
    for split, count in (("train", 240), ("dev", 61)):
        lines = ["text\ttext_b\tlabel" if pairs else "text\tlabel"]
        for _ in range(count):
            label = random.choice(["bad", "good", "odd"] if pairs else ["bad", "good"])
            clue = {"bad": SAD, "good": HAPPY, "odd": ("music", "song")}[label]
            words = [*random.choice(NEUTRAL, random.integers(1, 9)), random.choice(clue)]
            random.shuffle(words)
            fields = [" ".join(words).capitalize() + "!"]
            if pairs:
                fields.insert(0, " ".join(random.choice(NEUTRAL, random.integers(1, 40))))
            lines.append("\t".join([*fields, label]))
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def flags(data_dir, init, model_dir, **others) -> list[str]:
    values = {
        "task": "classification",
        "data_dir": data_dir,
        "init": init,
        "model_dir": model_dir,
        "train_batch_size": 16,
        "learning_rate": 3e-3,
        "num_train_epochs": 4,
    } | others
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def results(folder) -> dict[str, float]:
    return json.loads((folder / "results.json").read_text())
